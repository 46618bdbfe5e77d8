"""`tessera video`: a sequence whose frames are all published as a film, by the ffmpeg of this machine."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from client.commands import print_document
from client.contact_sheet import previews
from client.errors import BadInput, ExitCode
from client.report import steps
from client.sequence_commands import recorded_sequence
from client.sequences import published_numbers
from client.session import session
from contracts import SequenceRequest
from settings import Settings
from store import Store
from workflows.tiling import to_ranges

FORMATS = (".mp4", ".mov", ".mkv", ".webm")
EVEN = "pad=ceil(iw/2)*2:ceil(ih/2)*2"
"""Players want half as many colour samples as pixels either way, and so even edges."""
SHOWN_RANGES = 10


async def video(given: argparse.Namespace, settings: Settings) -> ExitCode:
    """The frames in the order of their numbers, as fast as they were asked for with --fps."""
    output = Path(given.output)
    if output.suffix.lower() not in FORMATS:
        raise BadInput(f"{output}: the film's format is its extension, one of {' '.join(FORMATS)}")
    if not output.parent.is_dir():
        raise BadInput(f"{output}: the folder {output.parent} is not there")
    program = ffmpeg()
    async with session(settings) as opened:
        request = recorded_sequence(opened, given.job)
        if missing := set(request.numbers) - set(published_numbers(opened.store, request)):
            raise BadInput(
                f"{given.job}: frames {ranges(missing)} are not published; see `tessera status {given.job}`"
            )
        with steps() as progress:
            try:
                encode(opened.store, request, progress, output, program)
            except OSError as error:
                raise BadInput(f"{output}: {error.strerror or error}") from error
    if given.json:
        print_document({"job_id": given.job, "output": str(output), "frames": len(request.numbers)})
    else:
        print(f"wrote {output}: {len(request.numbers)} frames, {request.template.settings.fps:g} a second")
    return ExitCode.DONE


def ffmpeg() -> str:
    """Raises BadInput, saying what to do, where there is none."""
    program = shutil.which("ffmpeg")
    if program is None:
        raise BadInput(
            "a video needs ffmpeg, and none is on the PATH: install it with this machine's packages, or use "
            "`tessera contact-sheet`, or `tessera fetch JOB -o 'frame.####.png'` for another program"
        )
    return program


def encode(
    store: Store, request: SequenceRequest, progress: Callable[[str], None], output: Path, program: str
) -> None:
    """Feeds the frames to ffmpeg, which chooses the codec by the extension. A film that is there already is
    replaced by the whole new one, or stays. Raises BadInput where ffmpeg fails, with what it says, and
    OSError."""
    with tempfile.TemporaryDirectory(prefix=".tessera-", dir=output.parent) as folder:
        target, log = Path(folder) / output.name, Path(folder) / "log"
        frames = previews(store, request, progress)
        _, first = next(frames)
        command = [
            *(program, "-hide_banner", "-loglevel", "error", "-y"),
            *("-f", "rawvideo", "-pixel_format", "rgb24", "-video_size", f"{first.width}x{first.height}"),
            *("-framerate", f"{request.template.settings.fps:g}", "-i", "-"),
            *("-vf", EVEN, "-pix_fmt", "yuv420p", str(target.resolve())),
        ]
        with open(log, "wb") as errors:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=errors, stderr=errors)
        assert process.stdin is not None
        try:
            with process.stdin as pipe:
                pipe.write(first.tobytes())
                for _, picture in frames:
                    pipe.write(picture.tobytes())
        except BrokenPipeError:
            pass  # it has ended early: its exit code and its log say why
        finally:
            code = process.wait()
        if code != 0:
            raise BadInput(f"{output}: ffmpeg failed: {log.read_text(errors='replace').strip()[-500:]}")
        target.replace(output)


def ranges(numbers: set[int]) -> str:
    """{1, 2, 3, 7} -> 1-3, 7"""
    spans = to_ranges(numbers)
    parts = [f"{first}-{end - 1}" if end - first > 1 else str(first) for first, end in spans]
    return ", ".join(parts[:SHOWN_RANGES]) + (" and more" if len(parts) > SHOWN_RANGES else "")
