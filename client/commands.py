"""The commands behind the command line: each takes the parsed options and returns an exit code."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from client.errors import BadInput, ExitCode, exit_code
from client.fetch import check_outputs
from client.frames import output_path, parse_frames
from client.options import named_as_options, options_of
from client.rate import rate_text
from client.report import Told, describe, percent, reporting
from client.request import LocalBundle, make_requests
from client.session import Session, session
from contracts import FrameRequest, FrameStatus, JobStatus
from settings import Settings


async def render_one(given: argparse.Namespace, settings: Settings) -> ExitCode:
    """One frame; several are a sequence: see client.sequence_commands."""
    (frame,) = parse_frames(given.frames)
    outputs = [output_path(text, frame) for text in given.output]
    check_outputs(outputs)
    requests, local = requests_of(given, [frame], settings)
    told = Told()
    async with session(settings) as opened:
        status = await _submit(opened, given, requests, local, told)
        if status.result is None:
            with reporting(told) as report:
                status = await opened.wait(status.job_id, report)
        if status.status is FrameStatus.COMPLETED:
            _fetch(opened, status.job_id, outputs, given.exposure)
    print_statuses(given, [status])
    return exit_code(status.status)


def requests_of(
    given: argparse.Namespace, frames: list[int], settings: Settings
) -> tuple[list[FrameRequest], LocalBundle]:
    with named_as_options():
        return make_requests(given.scene, frames, options_of(given, settings.project))


def _fetch(opened: Session, job_id: str, outputs: list[Path], exposure: float | None) -> None:
    opened.fetch(job_id, outputs, exposure)
    for path in outputs:
        print(f"wrote {path}", file=sys.stderr)


async def submit_one(given: argparse.Namespace, settings: Settings) -> ExitCode:
    requests, local = requests_of(given, parse_frames(given.frames), settings)
    async with session(settings) as opened:
        status = await _submit(opened, given, requests, local, Told())
        say_whether_it_goes_on(opened)
    if given.json:
        print_statuses(given, [status])
    else:
        print(status.job_id)
    return ExitCode.DONE


def say_whether_it_goes_on(opened: Session) -> None:
    if opened.farm is not None and opened.farm.while_used:
        print(
            "note: no farm goes on when this command ends. What is submitted waits: start `tessera dev`, "
            "or render it with `tessera render` or `tessera watch`",
            file=sys.stderr,
        )


async def _submit(
    opened: Session, given: argparse.Namespace, requests: list[FrameRequest], local: LocalBundle, told: Told
) -> JobStatus:
    """Submits one frame, and tells on stderr what a person should know."""
    for warning in local.warnings:
        told.say(f"warning: {warning}")
    ((status, note),) = await opened.submit(requests, local)
    if note:
        told.say(f"note: {note}")
    if status.result is not None:
        print(f"{status.job_id} is published already", file=sys.stderr)
    elif opened.farm is not None:
        page = f"{opened.farm.ui}/namespaces/default/workflows/{status.job_id}"
        print(f"{status.job_id}\nWeb UI: {page}", file=sys.stderr)
    elif given.command == "render":
        print(status.job_id, file=sys.stderr)
    return status


async def show_status(given: argparse.Namespace, settings: Settings) -> ExitCode:
    if given.frames:
        raise BadInput("--frames: of a sequence; a frame has --tiles")
    async with session(settings) as opened:
        progress = opened.progress(given.job)
        status = await opened.status(given.job)
    if not given.tiles:
        print_statuses(given, [status])
        return ExitCode.DONE
    tiles = [] if status.status.is_final else progress.in_flight
    tile_map = None if status.status.is_final else progress.tile_map(status)
    if given.json:
        states = tile_map.states if tile_map is not None else {}
        in_flight = [tile.document() for tile in tiles]
        print_document(status.model_dump(mode="json") | {"in_flight": in_flight, "tile_states": states})
        return ExitCode.DONE
    print_statuses(given, [status])
    for tile in tiles:
        samples, attempt = f"{tile.samples:6} samples", f"attempt {tile.lost + 1}"
        why = f"  last: {tile.failure.code}: {tile.failure.message[:80]}" if tile.failure else ""
        print(f"{tile.tile_id}  {tile.status:16} {samples}, {attempt} {tile.worker}{why}")
    if tile_map is not None:
        print(tile_map.text())
    return ExitCode.DONE


NONSENSE = {
    ("pause", FrameStatus.FINALIZING): "nothing of it renders any more",
    ("pause", FrameStatus.DEAD_LETTERED): "nothing of it renders; retry or cancel it",
    ("resume", FrameStatus.DEAD_LETTERED): "it is not paused; retry or cancel it",
}
"""As the workflow's own updates refuse it: workflows/steering.py. The command line sends signals, which also
reach a frame that no worker serves just then."""


async def signal_job(given: argparse.Namespace, settings: Settings) -> ExitCode:
    """pause and resume: the command's name is the signal's."""
    async with session(settings) as opened:
        status = await unfinished(opened, given.job)
        if why := NONSENSE.get((given.command, status.status)):
            raise BadInput(f"{given.job} is {status.status}: {why}")
        await opened.reach(lambda client: client.get_workflow_handle(given.job).signal(given.command))
        status = await opened.status(given.job)
    print_statuses(given, [status])
    return ExitCode.DONE


async def unfinished(opened: Session, job_id: str) -> JobStatus:
    """The job's status; refuses, saying why, where there is nothing to signal."""
    status = await opened.status(job_id)
    if status.status.is_final:
        raise BadInput(f"{job_id} is {status.status} already; submitting it again takes it up where it is")
    return status


async def fetch_job(given: argparse.Namespace, settings: Settings) -> ExitCode:
    async with session(settings) as opened:
        manifest = opened.manifest(given.job)
        if manifest is None:
            status = await opened.status(given.job)
            raise BadInput(f"{given.job} is {status.status}: there is no published picture")
        outputs = [output_path(text, manifest.frame.request.frame_number) for text in given.output]
        check_outputs(outputs)
        _fetch(opened, given.job, outputs, given.exposure)
    if given.json:
        print_document({"job_id": given.job, "outputs": [str(path) for path in outputs]})
    return ExitCode.DONE


def print_statuses(given: argparse.Namespace, statuses: list[JobStatus]) -> None:
    if given.json:
        documents = [status.model_dump(mode="json") for status in statuses]
        print_document(documents[0] if len(documents) == 1 else documents)
        return
    for status in statuses:
        print(f"{status.job_id}\n{percent(status).strip()}  {describe(status)}{rate_text(status)}")
        if status.result is not None:
            print(f"{status.result.image}  sha256 {status.result.sha256}")


def print_document(document: Any) -> None:
    """The one document of --json."""
    print(json.dumps(document, indent=1, ensure_ascii=False))
