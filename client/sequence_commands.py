"""The commands of sequences. What names one job serves both: a sequence is told from a frame by its id."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from client import commands, sequences
from client.cancel import request_cancel
from client.errors import BadInput, ExitCode
from client.farm import running_farm
from client.fetch import check_outputs
from client.frames import is_template, output_path, parse_frames, parse_spans
from client.published import is_job_name, published, recorded_request
from client.report import Told
from client.sequence_report import describe, reporting
from client.session import Session, session
from client.submit import END_SECONDS
from client.upload import upload
from client.watch import POLL_SECONDS, QUICK_POLLS, SLOW_POLL_SECONDS
from contracts import SEQUENCE_PREFIX, FrameStatus, SequenceReport, SequenceRequest, SequenceStatus
from settings import Settings
from workflows.tiling import from_ranges

Command = Callable[[argparse.Namespace, Settings], Coroutine[Any, Any, ExitCode]]


async def of_one_frame(given: argparse.Namespace, settings: Settings) -> ExitCode:
    """In the place of a command that makes no sense of a sequence."""
    raise BadInput(
        f"{given.command}: of a frame; `tessera status --frames {given.job}` lists those of the sequence"
    )


def by_frames(of_frame: Command, of_sequence: Command) -> Command:
    """A command with --frames: several of them are a sequence."""

    async def run(given: argparse.Namespace, settings: Settings) -> ExitCode:
        try:
            several = len(parse_frames(given.frames)) > 1
        except ValueError as error:
            raise BadInput(f"--frames: {error}") from error
        if given.every is not None and not several:
            raise BadInput("--every: there is only one frame")
        return await (of_sequence if several else of_frame)(given, settings)

    return run


# --- submitting ---------------------------------------------------------------------------------


async def render(given: argparse.Namespace, settings: Settings) -> ExitCode:
    """Submits, watches, and writes each picture when it is published."""
    outputs = Outputs(given, parse_frames(given.frames))
    async with session(settings) as opened:
        request, report = await _submit(opened, given, settings)
        report = await _watch(opened, report, lambda now: outputs.fetch(opened, request, now))
        print_report(given, request, report, outputs.results)
    return exit_code(report)


async def submit(given: argparse.Namespace, settings: Settings) -> ExitCode:
    async with session(settings) as opened:
        request, report = await _submit(opened, given, settings)
        commands.say_whether_it_goes_on(opened)
    if given.json:
        print_report(given, request, report)
    else:
        print(report.job_id)
    return ExitCode.DONE


async def _submit(
    opened: Session, given: argparse.Namespace, settings: Settings
) -> tuple[SequenceRequest, SequenceReport]:
    """Uploads what the frames need and starts the sequence, if not all of them are published. What is young
    in the store is safe from `tessera gc`, and so the record goes first."""
    frames, told = parse_frames(given.frames), Told()
    if given.every is not None and given.every < 2:
        raise BadInput("--every: at least 2, for each so-manieth frame")
    requests, local = commands.requests_of(given, frames, settings)
    request = SequenceRequest(
        template=requests[0].model_copy(update={"frame_number": 0}),
        frames=parse_spans(given.frames),
        every=given.every,
    )
    for warning in local.warnings:
        told.say(f"warning: {warning}")
    sequences.record(opened.store, request)
    new = [r for r in requests if published(opened.store, r.job_id, r.idempotency_key) is None]
    if new:
        upload(opened.store, local, new)
        await opened.reach(lambda client: sequences.start(client, request))
    if opened.farm is not None:
        page = f"{opened.farm.ui}/namespaces/default/workflows/{request.job_id}"
        print(f"{request.job_id}\nWeb UI: {page}", file=sys.stderr)
    elif given.command == "render":
        print(request.job_id, file=sys.stderr)
    if len(new) < len(requests):
        print(f"{len(requests) - len(new)} of {len(requests)} frames are published already", file=sys.stderr)
    return request, await look(opened, request.job_id)


# --- looking ------------------------------------------------------------------------------------


async def look(opened: Session, job_id: str) -> SequenceReport:
    """The truth about a sequence. Raises BadInput for an unknown one. What the store alone can answer starts
    no embedded farm."""
    if not is_job_name(job_id):
        raise opened.no_such_job(job_id)
    report = None
    idle = opened.embedded and opened.farm is None and running_farm(opened.settings.state_dir) is None
    if idle:
        report = sequences.stored_report(opened.store, job_id)
    if not idle or (not opened.is_new and (report is None or report.status is not SequenceStatus.COMPLETED)):
        report = await opened.reach(lambda client: sequences.report(client, opened.store, job_id))
    if report is None:
        raise opened.no_such_job(job_id)
    return report


def recorded_sequence(opened: Session, job_id: str) -> SequenceRequest:
    """What the sequence was asked to be. Raises BadInput for an unknown one, and for a frame."""
    request = None
    if is_job_name(job_id) and job_id.startswith(SEQUENCE_PREFIX):
        request = sequences.recorded(opened.store, job_id)
    elif is_job_name(job_id) and recorded_request(opened.store, job_id):
        raise BadInput(f"{job_id}: a single frame; this is asked of a sequence")
    if request is None:
        raise opened.no_such_job(job_id)
    return request


async def _watch(
    opened: Session, report: SequenceReport, on_report: Callable[[SequenceReport], None]
) -> SequenceReport:
    """Shows every new report until the sequence has ended, or nothing of it goes on without an operator."""
    looks = 0
    with reporting() as show:
        while True:
            show(report)
            on_report(report)
            if report.status.is_final or report.status is SequenceStatus.DEAD_LETTERED:
                return report
            looks += 1
            await asyncio.sleep(POLL_SECONDS if looks < QUICK_POLLS else SLOW_POLL_SECONDS)
            report = await look(opened, report.job_id)


async def status(given: argparse.Namespace, settings: Settings) -> ExitCode:
    if given.tiles:
        raise BadInput("--tiles: of a frame; a sequence has --frames")
    async with session(settings) as opened:
        report, request = await look(opened, given.job), sequences.recorded(opened.store, given.job)
        print_report(given, request, report)
    if given.frames and not given.json and request is not None:
        for number, state in states(request, report).items():
            print(f"{number:>6}  {state:16}  {request.frame(number).job_id}")
    return ExitCode.DONE


async def watch(given: argparse.Namespace, settings: Settings) -> ExitCode:
    if given.picture:
        raise BadInput("--picture: of a frame; of a sequence `tessera contact-sheet` writes one")
    async with session(settings) as opened:
        report = await _watch(opened, await look(opened, given.job), lambda now: None)
        print_report(given, sequences.recorded(opened.store, given.job), report)
    return exit_code(report)


async def fetch(given: argparse.Namespace, settings: Settings) -> ExitCode:
    """Writes the pictures of all frames that are published."""
    async with session(settings) as opened:
        report = await look(opened, given.job)
        request = sequences.recorded(opened.store, given.job)
        if request is None or not report.published:
            raise BadInput(f"{given.job} is {report.status}: no frame of it is published")
        outputs = Outputs(given, request.numbers)
        outputs.fetch(opened, request, report)
        print_report(given, request, report, outputs.results)
    return ExitCode.DONE


class Outputs:
    """Where the pictures go, and which are written."""

    def __init__(self, given: argparse.Namespace, numbers: list[int]) -> None:
        if not all(is_template(text) for text in given.output):
            raise BadInput("several frames need a template in -o, for example -o 'shot.####.exr'")
        self._paths = {number: [output_path(text, number) for text in given.output] for number in numbers}
        self._exposure: float | None = given.exposure
        self.results: dict[int, list[Path]] = {}
        check_outputs(path for paths in self._paths.values() for path in paths)

    def fetch(self, opened: Session, request: SequenceRequest, report: SequenceReport) -> None:
        """Writes the pictures of frames that are published since the last time."""
        for number in sorted(from_ranges(report.published) - self.results.keys()):
            paths = self._paths[number]
            opened.fetch(request.frame(number).job_id, paths, self._exposure)
            self.results[number] = paths
            for path in paths:
                print(f"wrote {path}", file=sys.stderr)


# --- steering -----------------------------------------------------------------------------------


async def signal(given: argparse.Namespace, settings: Settings) -> ExitCode:
    """pause, resume and approve: the command's name is the signal's."""
    async with session(settings) as opened:
        refuse_ended(await look(opened, given.job))
        await opened.reach(lambda client: client.get_workflow_handle(given.job).signal(given.command))
        await _print_now(opened, given)
    return ExitCode.DONE


async def retry(given: argparse.Namespace, settings: Settings) -> ExitCode:
    """Another try for every frame without a picture; a sequence that has ended starts again for them."""
    if given.tile:
        raise BadInput("--tile: of a frame; give the frame's id")
    async with session(settings) as opened:
        report = await look(opened, given.job)
        counts = report.frames
        if report.status.is_final and counts.published < counts.total:
            request = sequences.recorded(opened.store, given.job)
            if request is None:
                raise BadInput(f"{given.job}: its record is gone from the store; submit it again")
            sequences.record(opened.store, request)
            await opened.reach(lambda client: sequences.start(client, request, report.approved))
        elif counts.failed + counts.cancelled + counts.dead_lettered:
            await opened.reach(lambda client: client.get_workflow_handle(given.job).signal("retry"))
        else:
            raise BadInput(f"{given.job} is {report.status}: none of its frames failed or waits for a retry")
        await _print_now(opened, given)
    return ExitCode.DONE


async def _print_now(opened: Session, given: argparse.Namespace) -> None:
    report = await look(opened, given.job)
    print_report(given, sequences.recorded(opened.store, given.job), report)


def refuse_ended(report: SequenceReport) -> None:
    """Raises BadInput, saying why, where there is nothing left to steer."""
    if report.status.is_final:
        again = (
            "" if report.status is SequenceStatus.COMPLETED else "; `tessera retry` renders what is missing"
        )
        raise BadInput(f"{report.job_id} is {report.status} already{again}")


async def refuse_frame(given: argparse.Namespace, settings: Settings) -> ExitCode:
    raise BadInput(f"{given.job}: only a sequence waits for an approval")


async def cancel(given: argparse.Namespace, settings: Settings) -> ExitCode:
    async with session(settings) as opened:
        refuse_ended(await look(opened, given.job))
        if not await request_cancel(opened, given.job, given.discard):
            print(
                f"the sequence has not ended within {END_SECONDS:.0f} s; it does as soon as its workers take "
                "note",
                file=sys.stderr,
            )
        await _print_now(opened, given)
    return ExitCode.DONE


def exit_code(report: SequenceReport) -> ExitCode:
    """The code with which a command that waited for a sequence ends."""
    return {
        SequenceStatus.FAILED_TERMINAL: ExitCode.FAILED,
        SequenceStatus.DEAD_LETTERED: ExitCode.DEAD_LETTERED,
        SequenceStatus.CANCELLED: ExitCode.CANCELLED,
    }.get(report.status, ExitCode.DONE)


def print_report(
    given: argparse.Namespace,
    request: SequenceRequest | None,
    report: SequenceReport,
    outputs: dict[int, list[Path]] | None = None,
) -> None:
    if not given.json:
        print(f"{report.job_id}\n{describe(report)}")
        return
    document = report.model_dump(mode="json")
    if request is not None:
        document["jobs"] = [
            {"frame": number, "job_id": request.frame(number).job_id, "status": state}
            | ({"outputs": [str(path) for path in outputs.get(number, [])]} if outputs is not None else {})
            for number, state in states(request, report).items()
        ]
    commands.print_document(document)


def states(request: SequenceRequest, report: SequenceReport) -> dict[int, FrameStatus]:
    """Each frame's state in a word. Of one that runs `tessera status` of the frame says more."""
    found = dict.fromkeys(request.numbers, FrameStatus.QUEUED)
    found |= dict.fromkeys(report.running, FrameStatus.RUNNING)
    found |= dict.fromkeys(report.dead_lettered, FrameStatus.DEAD_LETTERED)
    found |= dict.fromkeys(from_ranges(report.failed), FrameStatus.FAILED_TERMINAL)
    found |= dict.fromkeys(from_ranges(report.cancelled), FrameStatus.CANCELLED)
    found |= dict.fromkeys(from_ranges(report.published), FrameStatus.COMPLETED)
    return found


render_any = by_frames(commands.render_one, render)
submit_any = by_frames(commands.submit_one, submit)
