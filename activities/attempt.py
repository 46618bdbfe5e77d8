"""What every activity shares: a heartbeat that is also the place where a stop is noticed."""

from __future__ import annotations

from typing import Any

from temporalio import activity

from activities.errors import Refused
from contracts import ErrorCode


class Stop(BaseException):
    """The attempt has to end. Not an error, so that nothing that catches errors swallows it."""


class Cancelled(Stop):
    """The workflow, or a person, wants the attempt to stop: a pause or a cancel, or it is disowned."""


class WorkerLeaving(Stop):
    """The worker is shutting down; another one goes on."""


def beat(**details: Any) -> None:
    """Tells Temporal how far the attempt is; raises Stop when it has to end.

    Called from the work itself and never from a timer, so that a hung attempt falls silent. details
    are a small plain dict: what cannot be decoded would be a failure that no retry mends.
    """
    try:
        activity.heartbeat(details)
    except TimeoutError as error:
        # The SDK hands a beat to its event loop and waits 10 s for that.
        raise Refused(
            ErrorCode.WORKER_LOST, "the worker stood still for seconds: it was stopped, or is overloaded"
        ) from error
    if activity.is_cancelled():
        raise Cancelled
    if activity.is_worker_shutdown():
        raise WorkerLeaving


def beat_step(step: str) -> None:
    """`beat` as the Progress callback of loading and building."""
    beat(doing=step)
