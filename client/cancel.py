"""`tessera cancel`: asks for it, waits for the end, and says what has become of the job."""

from __future__ import annotations

import argparse
import sys

from client.commands import print_statuses
from client.errors import BadInput, ExitCode
from client.report import describe, percent
from client.session import Session, session
from client.status import describe as describe_run
from client.submit import END_SECONDS, wait_for_end
from contracts import FrameStatus, JobStatus
from settings import Settings


async def cancel_job(given: argparse.Namespace, settings: Settings) -> ExitCode:
    async with session(settings) as opened:
        refuse_ended(await opened.status(given.job))
        ended = await request_cancel(opened, given.job, given.discard)
        status = await opened.status(given.job)
    if given.json:
        print_statuses(given, [status])
    else:
        print(f"{given.job}\n{outcome(status, given.discard, ended)}")
    return ExitCode.DONE


def refuse_ended(status: JobStatus) -> None:
    """Raises BadInput, saying why, where there is nothing to cancel."""
    job, ended = status.job_id, status.status
    if ended is FrameStatus.COMPLETED and status.result is not None:
        raise BadInput(
            f"{job} is completed and its picture is published: there is nothing to cancel, and --discard "
            "does not apply; `tessera fetch` writes the picture"
        )
    if ended is FrameStatus.CANCELLED:
        raise BadInput(
            f"{job} is cancelled already; submitting it again goes on from the films that are there"
        )
    if ended.is_final:
        raise BadInput(f"{job} is {ended}: it has ended, and there is nothing to cancel")


async def request_cancel(opened: Session, job: str, discard: bool) -> bool:
    """Whether the run has ended in the time that is granted to its tiles."""
    if discard:
        await opened.reach(lambda client: client.get_workflow_handle(job).signal("discard_on_cancel"))
    await opened.reach(lambda client: client.get_workflow_handle(job).cancel())
    seen = await opened.reach(lambda client: describe_run(client, job))
    if seen is None:
        return True
    print("cancel is requested; waiting for the running tiles to stop", file=sys.stderr)
    return await opened.reach(lambda client: wait_for_end(client, seen))


def outcome(status: JobStatus, discard: bool, ended: bool) -> str:
    """What a person wants to know after a cancel."""
    if not ended:
        return (
            f"cancel is requested, but the run has not ended within {END_SECONDS:.0f} s; it does as soon as "
            f"its workers take note: {describe(status)}"
        )
    if not status.status.is_final:
        return f"cancelled, and submitted again meanwhile: {describe(status)}"
    if status.status is not FrameStatus.CANCELLED:
        return f"it ended before the cancel reached it: {describe(status)}"
    if status.progress == 0:
        return "cancelled; its films are removed" if discard else "cancelled; nothing had been rendered"
    if discard:
        return (
            f"cancelled; films of {percent(status).strip()} are still there: of a published frame of fewer "
            "samples, or they could not be removed"
        )
    return (
        f"cancelled; {percent(status).strip()} is rendered and kept: submitting it again goes on from there"
    )
