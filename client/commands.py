"""The commands behind the command line: each takes the parsed options and returns an exit code."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from client.errors import BadInput, ExitCode, exit_code
from client.fetch import check_output
from client.frames import is_template, output_path, parse_frames
from client.options import options_of
from client.request import make_requests
from client.session import Session, session
from client.watch import describe, make_reporter
from contracts import FrameRequest, FrameStatus, JobStatus
from settings import Settings
from workflows import attributes


async def render_frames(given: argparse.Namespace, settings: Settings) -> ExitCode:
    frames = _frames(given.frames)
    outputs = {frame: [output_path(text, frame) for text in given.output] for frame in frames}
    if len(frames) > 1 and not all(is_template(text) for text in given.output):
        raise BadInput("several frames need a template in -o, for example -o 'shot.####.exr'")
    for path in outputs[frames[0]]:
        check_output(path)
    requests, local = make_requests(given.scene, frames, options_of(given, settings.project))
    async with session(settings) as opened:
        submitted = [await _submit(opened, request, local) for request in requests]
        finished: list[JobStatus] = []
        for request, first in zip(requests, submitted, strict=True):
            status = first if first.result else await opened.wait(request.job_id, make_reporter())
            if status.result is not None:
                opened.fetch(request.job_id, outputs[request.frame_number], given.exposure)
                for path in outputs[request.frame_number]:
                    print(f"wrote {path}", file=sys.stderr)
            finished.append(status)
    _print_statuses(given, finished)
    return max(exit_code(status.status) for status in finished)


async def submit_frames(given: argparse.Namespace, settings: Settings) -> ExitCode:
    requests, local = make_requests(given.scene, _frames(given.frames), options_of(given, settings.project))
    async with session(settings) as opened:
        statuses = [await _submit(opened, request, local) for request in requests]
        if opened.embedded and opened.web_ui and any(status.result is None for status in statuses):
            print(
                "the embedded farm stops with this command: run `tessera dev` beside it, or `tessera render`",
                file=sys.stderr,
            )
    if given.json:
        _print_statuses(given, statuses)
    else:
        for status in statuses:
            print(status.job_id)
    return ExitCode.DONE


async def _submit(opened: Session, request: FrameRequest, local: Any) -> JobStatus:
    for warning in local.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    status, note = await opened.submit(request, local)
    if note:
        print(f"note: {note}", file=sys.stderr)
    if status.result is not None:
        print(f"{status.job_id} is published already", file=sys.stderr)
    elif opened.web_ui:
        page = f"{opened.web_ui}/namespaces/default/workflows/{status.job_id}"
        print(f"{status.job_id}\nWeb UI: {page}", file=sys.stderr)
    else:
        print(status.job_id, file=sys.stderr)
    return status


async def show_status(given: argparse.Namespace, settings: Settings) -> ExitCode:
    async with session(settings) as opened:
        status = await opened.status(given.job)
    _print_statuses(given, [status])
    return ExitCode.DONE


async def watch_job(given: argparse.Namespace, settings: Settings) -> ExitCode:
    async with session(settings) as opened:
        status = await opened.wait(given.job, make_reporter())
    _print_statuses(given, [status])
    return exit_code(status.status)


async def signal_job(given: argparse.Namespace, settings: Settings) -> ExitCode:
    """pause, resume and retry: the command's name is the signal's."""
    async with session(settings) as opened:
        await _running(opened, given.job)
        handle = (await opened.client()).get_workflow_handle(given.job)
        await handle.signal(given.command)
        status = await opened.status(given.job)
    _print_statuses(given, [status])
    return ExitCode.DONE


async def cancel_job(given: argparse.Namespace, settings: Settings) -> ExitCode:
    async with session(settings) as opened:
        await _running(opened, given.job)
        handle = (await opened.client()).get_workflow_handle(given.job)
        if given.discard:
            await handle.signal("discard_on_cancel")
        await handle.cancel()
        status = await opened.status(given.job)
    _print_statuses(given, [status])
    return ExitCode.DONE


async def _running(opened: Session, job_id: str) -> None:
    """Refuses, saying why, where there is nothing to signal."""
    status = await opened.status(job_id)
    if status.status.is_final:
        raise BadInput(f"{job_id} is {status.status} already")


async def fetch_job(given: argparse.Namespace, settings: Settings) -> ExitCode:
    async with session(settings) as opened:
        manifest = opened.manifest(given.job)
        if manifest is None:
            status = await opened.status(given.job)
            raise BadInput(f"{given.job} is {status.status}: there is no published picture yet")
        outputs = [output_path(text, manifest.frame.request.frame_number) for text in given.output]
        for path in outputs:
            check_output(path)
        opened.fetch(given.job, outputs, given.exposure)
    if given.json:
        print_document({"job_id": given.job, "outputs": [str(path) for path in outputs]})
    return ExitCode.DONE


async def list_jobs(given: argparse.Namespace, settings: Settings) -> ExitCode:
    query = ["WorkflowType = 'FrameWorkflow'"]
    if given.status:
        if given.status not in set(FrameStatus):
            raise BadInput(f"{given.status!r} is no status; one of {', '.join(FrameStatus)}")
        query.append(f"RenderStatus = '{given.status}'")
    if given.project:
        query.append("RenderProject = '{}'".format(given.project.replace("'", "''")))
    rows: list[dict[str, Any]] = []
    seen: set[str] = set()
    async with session(settings) as opened:
        client = await opened.client()
        async for execution in client.list_workflows(" AND ".join(query)):
            if execution.id in seen:  # an older run of the same frame
                continue
            seen.add(execution.id)
            found = execution.typed_search_attributes
            rows.append(
                {
                    "job_id": execution.id,
                    "status": found.get(attributes.STATUS),
                    "project": found.get(attributes.PROJECT),
                    "scene": found.get(attributes.SCENE),
                    "frame": found.get(attributes.FRAME),
                    "progress": found.get(attributes.PROGRESS),
                    "started_at": execution.start_time.isoformat(),
                }
            )
            if len(rows) >= given.limit:
                break
    if given.json:
        print_document({"frames": rows})
    for row in [] if given.json else rows:
        percent, started = 100 * (row["progress"] or 0), row["started_at"][:19]
        print(f"{row['status']:16} {percent:3.0f} %  {started}  {row['job_id']}")
    return ExitCode.DONE


def _frames(text: str) -> list[int]:
    try:
        return parse_frames(text)
    except ValueError as error:
        raise BadInput(f"--frames: {error}") from error


def _print_statuses(given: argparse.Namespace, statuses: list[JobStatus]) -> None:
    if given.json:
        documents = [status.model_dump(mode="json") for status in statuses]
        print_document(documents[0] if len(documents) == 1 else documents)
        return
    for status in statuses:
        print(f"{status.job_id}\n{100 * status.progress:.1f} %  {describe(status)}")
        if status.result is not None:
            print(f"{status.result.image}  sha256 {status.result.sha256}")


def print_document(document: Any) -> None:
    """The one document of --json."""
    print(json.dumps(document, indent=1, ensure_ascii=False))
