"""Watching a frame until it has ended or is parked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from contracts import FrameStatus, JobStatus

POLL_SECONDS = 0.3
SLOW_POLL_SECONDS = 1.0
QUICK_POLLS = 100
"""Looks at the quick pace: a short frame is seen to end at once, a long one costs the server little."""


async def watch(
    look: Callable[[], Awaitable[JobStatus]], on_status: Callable[[JobStatus], None]
) -> JobStatus:
    """Looks, and tells on_status, until the frame has ended or waits for an operator."""
    looks, shown = 0, None
    while True:
        shown = _with_counts(await look(), shown)
        on_status(shown)
        if shown.status.is_final or shown.status is FrameStatus.DEAD_LETTERED:
            return shown
        looks += 1
        await asyncio.sleep(POLL_SECONDS if looks < QUICK_POLLS else SLOW_POLL_SECONDS)


def _with_counts(status: JobStatus, before: JobStatus | None) -> JobStatus:
    """With the last known counts where the workflow did not answer: they have not gone back to nothing."""
    if before is None or status.engine or not before.engine:  # only the workflow names its engine
        return status
    names = ("tiles", "samples", "attempts", "engine", "input_hash", "progress_pointer", "warnings")
    known = {name: getattr(before, name) for name in names}
    progress = max(status.progress, before.progress if not status.status.is_final else 0.0)
    return status.model_copy(update=known | {"progress": progress})
