"""The client: the command line `tessera`, and render_frame and submit_frame for Python.

From here to the path-tracing loop in five hops: FrameWorkflow.run (workflows/frame.py), render_tile
(activities/tiles.py), render_samples (tracer/render.py), the kernel (tracer/kernels/integrator.py).
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from client.errors import ClientError, ExitCode, client_errors
from client.options import add_output_options, add_scene_options

if TYPE_CHECKING:
    from client.api import render_frame, submit_frame
    from contracts import ErrorCode
    from settings import Settings

__all__ = ["main", "render_frame", "submit_frame"]

Command = Callable[[argparse.Namespace, "Settings"], Coroutine[Any, Any, ExitCode]]


def __getattr__(name: str) -> Any:
    """The functions for Python, imported when they are asked for, as every command is: --help and a mistyped
    option must not wait half a second for Temporal's client."""
    if name in ("render_frame", "submit_frame"):
        from client import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load(command: str) -> Command:
    """ "client.commands:show_status" -> that function."""
    from importlib import import_module

    module, name = command.split(":")
    found: Command = getattr(import_module(module), name)
    return found


def command_of(given: argparse.Namespace) -> str:
    """A frame's command or a sequence's: a job tells by its id which it is."""
    from contracts import SEQUENCE_PREFIX

    is_sequence = str(getattr(given, "job", None)).startswith(SEQUENCE_PREFIX)
    command: str = given.of_sequence if is_sequence else given.run
    return command


EXAMPLES = """examples:
  tessera render scene.glb -o picture.exr -o picture.png --size 1920x1080 --spp 256
  tessera render shot.gltf -o 'shot.####.png' --frames 1-100x2
  tessera submit shot.gltf --frames 1-240 --every 10     each tenth first, the others when you approve
  tessera contact-sheet JOB -o sheet.png                 tessera approve JOB
  tessera render bunny.ply -o bunny.png --environment sky.hdr --look-from 0,1,3 --look-at 0,0,0
  tessera submit scene.glb                 prints the job's id
  tessera watch JOB                        tessera fetch JOB -o picture.exr

The farm is the Temporal service that TEMPORAL_ADDRESS names. Without it, tessera starts one on this
machine for as long as it is used; `tessera dev` keeps one running.

exit codes:
   0  done; status, list, pause, resume, retry and cancel: asked and answered, whatever the job's state is
   1  render, watch: the job is failed_terminal, for a reason that its workers found
   2  bad usage or input that is found before anything is submitted, an unknown job, a job in whose state
      the command makes no sense
   3  render, watch: the job is dead_lettered and waits for a retry or a cancel
   4  render, watch: the job is cancelled
  69  the farm or the store cannot be reached, or does not do its part in time
 130  stopped by Ctrl-C
"""


class Version(argparse.Action):
    """Worked out only when it is asked for. The engine's name is the one in task queues and messages."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib import metadata

        from tracer import engine

        try:
            version = metadata.version("tessera")
        except metadata.PackageNotFoundError:
            version = "(not installed)"
        print(f"tessera {version}, picture version {engine.PICTURE_VERSION}, engine {engine.fingerprint()}")
        parser.exit()


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tessera",
        description="Renders frames that cannot be lost.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=Version, nargs=0, help="of the program and of its engine")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, text: str, run: str | None) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(run=run, of_sequence=run)
        if run is not None:
            sub.add_argument("--json", action="store_true", help="print one JSON document on stdout")
        # Without this, argparse takes the value of `--look-from -1,2,3` for an option.
        sub._negative_number_matcher = re.compile(r"-\.?\d")
        return sub

    def job_command(
        name: str, text: str, run: str, of_sequence: str = "client.sequence_commands:of_one_frame"
    ) -> argparse.ArgumentParser:
        """of_sequence: what runs in its place where the job is a sequence."""
        sub = command(name, text, run)
        sub.set_defaults(of_sequence=of_sequence)
        sub.add_argument("job", metavar="JOB", help="the job's id, as submit prints it")
        return sub

    of = "client.sequence_commands:"
    render = command("render", "submit, watch, and fetch the pictures", of + "render_any")
    add_scene_options(render)
    add_output_options(render)
    add_scene_options(
        command(
            "submit",
            "start the frame or sequence and print its job id",
            "client.sequence_commands:submit_any",
        )
    )
    status = job_command("status", "how a job is going", "client.commands:show_status", of + "status")
    status.add_argument("--tiles", action="store_true", help="also where each tile stands")
    status.add_argument("--frames", action="store_true", help="also each frame of a sequence, with its id")
    watch = job_command("watch", "follow a job until it ends", "client.watching:watch_job", of + "watch")
    watch.add_argument("--picture", action="store_true", help="also draw it on the terminal")
    job_command(
        "history", "what happened to a job: every attempt of every tile", "client.history:show_history"
    )
    preview = job_command("preview", "write the picture as far as it is", "client.preview:preview_job")
    preview.add_argument(
        *("-o", "--output"), required=True, metavar="FILE", help="a .png; what is not rendered is checkered"
    )
    preview.add_argument("--follow", action="store_true", help="keep writing it until the job ends")
    job_command("pause", "stop rendering; nothing is lost", "client.commands:signal_job", of + "signal")
    job_command("resume", "go on after a pause", "client.commands:signal_job", of + "signal")
    job_command(
        "approve",
        "render the rest of a sequence that was begun with --every",
        of + "refuse_frame",
        of + "signal",
    )
    priority = job_command(
        "priority",
        "let a running job's next tiles go before or after others",
        "client.steering:change_priority",
    )
    priority.add_argument("priority", type=int, metavar="N", help="0 to 100, higher first")
    more = job_command(
        "more", "render the same frame with more samples, on top of these", "client.steering:more_samples"
    )
    more.add_argument("--spp", type=int, required=True, metavar="N", help="samples a pixel in all")
    retry = job_command(
        "retry",
        "try again what is dead-lettered, or a sequence's failed frames",
        "client.dead_letters:retry_job",
        of + "retry",
    )
    retry.add_argument("--tile", action="append", metavar="TILE", help="only this dead tile; may be repeated")
    letters = command(
        "dead-letters", "the frames that wait for an operator", "client.dead_letters:dead_letters"
    )
    letters.add_argument("action", choices=("list", "show"), nargs="?", default="list")
    letters.add_argument("job", metavar="JOB", nargs="?", help="with show: all that is known of this job")
    tile = job_command(
        "render-tile", "render one tile in this process, without Temporal", "client.dead_letters:render_tile"
    )
    tile.add_argument("tile", metavar="TILE", help="its id, as `dead-letters` and `status --tiles` print it")
    tile.add_argument("--samples", type=int, metavar="N", help="only so many (default: all of the job's)")
    tile.add_argument("-o", "--output", metavar="FILE", help="where to write the film")
    cancel = job_command(
        "cancel", "end a job; submit it again to go on", "client.cancel:cancel_job", of + "cancel"
    )
    cancel.add_argument("--discard", action="store_true", help="also remove the films made so far")
    add_output_options(
        job_command(
            "fetch", "write the published pictures of a job", "client.commands:fetch_job", of + "fetch"
        )
    )
    sheet = job_command(
        "contact-sheet",
        "a sequence's published frames in one picture",
        *2 * ("client.contact_sheet:contact_sheet",),
    )
    sheet.add_argument(*("-o", "--output"), required=True, metavar="FILE", help="a .png")
    film = job_command("video", "a finished sequence as a film; needs ffmpeg", *2 * ("client.video:video",))
    film.add_argument(
        *("-o", "--output"), required=True, metavar="FILE", help="by its extension: .mp4, .mov, .mkv or .webm"
    )
    listing = command(
        "list", "the sequences and frames that Temporal knows, newest first", "client.listing:list_jobs"
    )
    listing.add_argument("--status", help="only jobs of this status")
    listing.add_argument("--project", help="only jobs of this project")
    listing.add_argument("--scene", metavar="FILE", help="only jobs of this scene file, as the list shows it")
    listing.add_argument("--since", metavar="AGE", help="only jobs started within it, for example 2d or 12h")
    listing.add_argument("--older-than", metavar="AGE", help="only jobs started before it")
    listing.add_argument("--limit", type=int, default=50, help="at most so many of each (default: 50)")
    verify = job_command(
        "verify", "prove that a published picture is what it claims to be", "client.upkeep:verify_job"
    )
    verify.add_argument(
        "--deep",
        type=int,
        nargs="?",
        const=4,
        default=0,
        metavar="N",
        help="render N tiles again (default: 4)",
    )
    gc = command(
        "gc",
        "remove what nothing running, published or young needs from the store",
        "client.upkeep:collect_garbage",
    )
    gc.add_argument("--older-than", default="7d", metavar="AGE", help="let be what is younger (default: 7d)")
    gc.add_argument(
        "--keep-films",
        default="30d",
        metavar="AGE",
        help="how long published frames keep their films, for more samples later; or always (default: 30d)",
    )
    gc.add_argument("--dry-run", action="store_true", help="only say what would go")
    replayed = job_command(
        "replay",
        "decide a job's history again with this version's workflow code",
        *2 * ("client.replay:replay_job",),
    )
    replayed.add_argument("--save", metavar="FILE", help="also write the history, as JSON")
    server = command(
        "codec-server",
        "decrypt for the Temporal Web UI what is encrypted with TESSERA_ENCRYPTION_KEYS",
        "client.codec_server:serve_codec",
    )
    server.add_argument(
        "--listen", default="127.0.0.1:8081", metavar="HOST:PORT", help="default: 127.0.0.1:8081"
    )
    server.add_argument(
        "--origin",
        default="http://localhost:8233",
        metavar="URL",
        help="of the Web UI, whose pages may ask (default: http://localhost:8233)",
    )
    dev = command("dev", "a farm on this machine, in the foreground", None)
    dev.add_argument("--while-used", action="store_true", help="stop when no client uses it any more")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; the exit code of the command line's contract."""
    given = make_parser().parse_args(argv)
    import asyncio
    import logging

    from settings import Settings

    logging.basicConfig(level=logging.ERROR, stream=sys.stderr)
    try:
        with client_errors():
            settings = Settings()
        if given.command == "dev":
            from client.dev import run_dev

            return run_dev(settings, given.while_used)
        return int(asyncio.run(load(command_of(given))(given, settings)))
    except ClientError as error:
        print(f"tessera: {error}", file=sys.stderr)
        return _refused(given, error.exit_code, str(error), error.code)
    except KeyboardInterrupt:
        if given.command in ("render", "submit", "watch"):
            print(f"\nstopped watching; {_what_goes_on()}", file=sys.stderr)
        return _refused(given, ExitCode.INTERRUPTED, "stopped by Ctrl-C", None)


def _refused(given: argparse.Namespace, code: ExitCode, message: str, reason: ErrorCode | None) -> int:
    """With --json what went wrong is the one document, too."""
    if getattr(given, "json", False):
        from client.commands import print_document

        print_document({"error": {"code": reason, "message": message, "exit_code": int(code)}})
    return int(code)


def run() -> NoReturn:
    """The program: main, and an exit that leaves the interpreter's own end out. There a thread of Temporal's
    client may still be handing an answer to Python, which crashes about one short command in thirty
    (temporalio/sdk-python issue 300), and the exit code is a contract."""
    code = main()
    from telemetry.traces import end_traces

    end_traces()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _what_goes_on() -> str:
    from settings import temporal_address

    if temporal_address() is None:
        return "the embedded farm stops unless `tessera dev` runs; the same command continues from here"
    return "it goes on: see `tessera list`, `tessera watch JOB`, `tessera cancel JOB`"


if __name__ == "__main__":
    run()
