"""What every activity shares: a heartbeat that is also the place where a stop is noticed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from temporalio import activity

Beat = Callable[..., None]
"""`beat`, or what stands for it where there is no Temporal."""


_last_beat: dict[int, float] = {}
"""When the attempt of each thread last told that it lives, by the monotonic clock."""


@contextmanager
def watched() -> Iterator[None]:
    """An attempt, for `silence`."""
    thread = threading.get_ident()
    _last_beat[thread] = time.monotonic()
    try:
        yield
    finally:
        del _last_beat[thread]


def silence() -> float:
    """Seconds since the most silent of this process's attempts was last heard of; 0 without any."""
    now = time.monotonic()
    return max((now - moment for moment in list(_last_beat.values())), default=0.0)


_told: ContextVar[dict[str, Any]] = ContextVar("told")
"""What this attempt's last heartbeat said. Every attempt runs in a context of its own."""


class Stop(BaseException):
    """The attempt has to end. Not an error, so that nothing that catches errors swallows it."""


class Cancelled(Stop):
    """The workflow, or a person, wants the attempt to stop: a pause or a cancel, or it is disowned."""


class WorkerLeaving(Stop):
    """The worker is shutting down; another one goes on."""


class Stalled(Exception):
    """The process was stopped, or its event loop stood, for so long that the attempt counts as lost."""


def beat(**details: Any) -> None:
    """Tells Temporal how far the attempt is; raises Stop when it has to end.

    Called from the work itself and never from a timer, so that a hung attempt falls silent. details
    are a small plain dict: what cannot be decoded would be a failure that no retry mends.
    """
    _told.set(details)
    try:
        activity.heartbeat(details)
    except TimeoutError as error:  # the SDK waits ten seconds for its event loop
        raise Stalled("stopped or stalled for ten seconds; another attempt goes on") from error
    _last_beat[threading.get_ident()] = time.monotonic()
    if activity.is_cancelled():
        raise Cancelled
    if activity.is_worker_shutdown():
        raise WorkerLeaving


def beat_step(step: str) -> None:
    """`beat` as the Progress callback of loading and building."""
    beat(doing=step)


def tell_end(reason: str) -> None:
    """Leaves word for the next attempt why this one ended without a result. A lost worker leaves none."""
    with suppress(TimeoutError):  # a process that stands still, and may be what failed
        activity.heartbeat(_told.get({}) | {"failed": reason})


def told_before() -> dict[str, Any]:
    """What the attempt before this one told last; empty where there was none."""
    details = activity.info().heartbeat_details
    return details[0] if details and isinstance(details[0], dict) else {}
