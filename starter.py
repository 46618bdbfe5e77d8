"""The client: the command line `tessera`, and render_frame and submit_frame for Python.

From here to the path-tracing loop in five hops: FrameWorkflow.run (workflows/frame.py), render_tile
(activities/tiles.py), render_samples (tracer/render.py), the kernel (tracer/kernels/integrator.py).
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from temporalio.service import RPCError

from client.commands import (
    cancel_job,
    fetch_job,
    list_jobs,
    print_document,
    render_frames,
    show_status,
    signal_job,
    submit_frames,
    watch_job,
)
from client.errors import ClientError, ExitCode
from client.options import add_scene_options, exposure
from client.request import Options, make_requests, plain
from client.session import session
from client.watch import make_reporter
from contracts import JobStatus
from settings import Settings

__all__ = ["main", "render_frame", "submit_frame"]

OUTPUTS = "a file ending in .exr, .png or .npy; may be repeated"
EXAMPLES = """examples:
  tessera render scene.glb -o picture.exr -o picture.png --size 1920x1080 --spp 256
  tessera render shot.gltf -o 'shot.####.png' --frames 1-100x2
  tessera submit scene.glb --environment sky.hdr
  tessera watch frame-default-scene-default-0001-0123456789abcdef
"""


async def submit_frame(scene: str | Path, *, frame: int = 1, options: Options | None = None) -> JobStatus:
    """Submits one frame and returns its status at once; what is published already is completed.

    Raises client.errors.BadInput for what makes no sense, Unreachable where the farm or store is away.
    """
    (request,), local = make_requests(Path(scene), [frame], options or Options())
    async with session() as opened:
        status, _ = await opened.submit(request, local)
        return status


async def render_frame(
    scene: str | Path,
    *,
    output: str | Path | None = None,
    frame: int = 1,
    samples_per_pixel: int = 64,
    **settings: Any,
) -> JobStatus:
    """Renders one frame: submits it, waits for its end, and writes the picture to `output`.

    settings are fields of contracts.RenderSettings, for example width, height, max_depth, seed. The
    status says how it ended: completed, failed_terminal, dead_lettered or cancelled.
    """
    options = Options(samples_per_pixel=samples_per_pixel, settings=settings)
    (request,), local = make_requests(Path(scene), [frame], options)
    async with session() as opened:
        status, _ = await opened.submit(request, local)
        if status.result is None:
            status = await opened.wait(request.job_id, make_reporter())
        if output is not None and status.result is not None:
            opened.fetch(request.job_id, [Path(output)], 0.0)
        return status


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tessera",
        description="Renders frames that cannot be lost.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, text: str, run: Any) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(run=run)
        if name != "dev":
            sub.add_argument("--json", action="store_true", help="print one JSON document on stdout")
        return sub

    def job_command(name: str, text: str, run: Any) -> argparse.ArgumentParser:
        sub = command(name, text, run)
        sub.add_argument("job", help="the job's id, as submit prints it")
        return sub

    render = command("render", "submit, watch, and fetch the picture", render_frames)
    add_scene_options(render)
    render.add_argument("-o", "--output", action="append", required=True, help=OUTPUTS)
    render.add_argument("--exposure", type=exposure, default=0.0, metavar="EV|auto", help="of the PNG alone")
    add_scene_options(command("submit", "start the frame and print its job id", submit_frames))
    job_command("status", "how a job is going", show_status)
    job_command("watch", "follow a job until it ends", watch_job)
    job_command("pause", "stop rendering; nothing is lost", signal_job)
    job_command("resume", "go on after a pause", signal_job)
    job_command("retry", "try a parked job again", signal_job)
    cancel = job_command("cancel", "end a job; submit it again to go on", cancel_job)
    cancel.add_argument("--discard", action="store_true", help="also remove its films")
    fetch = job_command("fetch", "write a published picture", fetch_job)
    fetch.add_argument("-o", "--output", action="append", required=True, help=OUTPUTS)
    fetch.add_argument("--exposure", type=exposure, default=0.0, metavar="EV|auto", help="of the PNG alone")
    listing = command("list", "the frames that Temporal knows", list_jobs)
    listing.add_argument("--status", help="only frames of this status")
    listing.add_argument("--project", help="only frames of this project")
    listing.add_argument("--limit", type=int, default=50)
    dev = command("dev", "a farm on this machine, in the foreground", None)
    dev.add_argument("--while-used", action="store_true", help="stop when no client uses it any more")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; the exit code of the command line's contract."""
    given = make_parser().parse_args(argv)
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr)
    try:
        settings = Settings()
        if given.command == "dev":
            from client.dev import run_dev

            return run_dev(settings, given.while_used)
        return int(asyncio.run(given.run(given, settings)))
    except ClientError as error:
        return _fail(given, str(error), error.code)
    except ValidationError as error:
        return _fail(given, plain(error), ExitCode.USAGE)
    except RPCError as error:
        return _fail(given, f"Temporal: {error.message}", ExitCode.UNREACHABLE)
    except KeyboardInterrupt:
        print("stopped watching; the same command goes on", file=sys.stderr)
        return 130


def _fail(given: argparse.Namespace, message: str, code: ExitCode) -> int:
    print(f"tessera: {message}", file=sys.stderr)
    if getattr(given, "json", False):
        print_document({"error": {"message": message, "exit_code": int(code)}})
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
