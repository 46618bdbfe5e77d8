"""What every activity shares: a heartbeat that is also the place where a stop is noticed."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from temporalio import activity

_told: ContextVar[dict[str, Any]] = ContextVar("told")
"""What this attempt's last heartbeat said. Every attempt runs in a context of its own."""


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
    _told.set(details)
    activity.heartbeat(details)
    if activity.is_cancelled():
        raise Cancelled
    if activity.is_worker_shutdown():
        raise WorkerLeaving


def beat_step(step: str) -> None:
    """`beat` as the Progress callback of loading and building."""
    beat(doing=step)


def tell_end(reason: str) -> None:
    """Leaves word for the next attempt why this one ended without a result. A lost worker leaves none."""
    activity.heartbeat(_told.get({}) | {"failed": reason})


def told_before() -> dict[str, Any]:
    """What the attempt before this one told last; empty where there was none."""
    details = activity.info().heartbeat_details
    return details[0] if details and isinstance(details[0], dict) else {}
