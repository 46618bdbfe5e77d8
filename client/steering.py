"""Commands that change what a farm does with a job: its priority, and more samples of the same frame."""

from __future__ import annotations

import argparse
import sys

from client.commands import print_statuses, unfinished
from client.errors import BadInput, ExitCode, client_errors
from client.options import named_as_options
from client.session import session
from contracts import FrameRequest, FrameStatus
from settings import Settings


async def change_priority(given: argparse.Namespace, settings: Settings) -> ExitCode:
    """Acts on tiles that are not in the queue yet. The job's identity stays: no pixel depends on it."""
    async with session(settings) as opened:
        _changed(opened.request(given.job), priority=given.priority)
        status = await unfinished(opened, given.job)
        if status.status is FrameStatus.FINALIZING:
            raise BadInput(f"{given.job} is finalizing: no tile of it is to come")
        await opened.reach(
            lambda client: client.get_workflow_handle(given.job).signal("set_priority", given.priority)
        )
        status = await opened.status(given.job)
    print_statuses(given, [status])
    return ExitCode.DONE


async def more_samples(given: argparse.Namespace, settings: Settings) -> ExitCode:
    """Submits the same frame with more samples, whether it still runs or not. What is rendered is reused."""
    async with session(settings) as opened:
        request = opened.request(given.job)
        if given.spp <= request.samples_per_pixel:
            raise BadInput(
                f"--spp: {given.job} has {request.samples_per_pixel} samples a pixel: ask for more than that"
            )
        status, note = await opened.submit_again(_changed(request, samples_per_pixel=given.spp))
    if note is not None:
        print(f"note: {note}", file=sys.stderr)
    print_statuses(given, [status])
    return ExitCode.DONE


def _changed(request: FrameRequest, **fields: int) -> FrameRequest:
    """Raises BadInput, naming the option, for a value that cannot be."""
    with named_as_options(), client_errors():
        return FrameRequest.model_validate(request.model_dump() | fields)
