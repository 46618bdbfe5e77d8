"""What every activity shares: a heartbeat that is also the place where a stop is noticed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from temporalio import activity

PAST_ATTEMPTS = 8
"""So many earlier attempts are handed on; a round has fewer."""

Beat = Callable[..., None]
"""`beat`, or what stands for it where there is no Temporal."""


_last_beat: dict[int, float] = {}
"""When the attempt of each thread last told that it lives, by the monotonic clock."""
_told: ContextVar[dict[str, Any]] = ContextVar("told")
"""What this attempt's last heartbeat said. Every attempt runs in a context of its own."""


@contextmanager
def watched(worker: str) -> Iterator[None]:
    """An attempt, for `silence` and for the attempts that come after it."""
    thread = threading.get_ident()
    _last_beat[thread] = time.monotonic()
    _told.set({"worker": worker, "since": now(), "past": past_attempts()})
    try:
        yield
    finally:
        del _last_beat[thread]


def past_attempts() -> list[dict[str, Any]]:
    """What the earlier attempts of this activity last said. Temporal's history keeps of all attempts of an
    activity only the last one: so each hands on what it knows of those before it, in its heartbeats and in
    its result, and `tessera history` can tell of all of them."""
    said = told_before()
    before = {name: value for name, value in said.items() if name != "past"}
    return [*said.get("past", []), before][-PAST_ATTEMPTS:] if said else []


def told(**details: Any) -> dict[str, Any]:
    """What this attempt's heartbeat says now: who it is, and the newest that is known of it."""
    newest = _told.get({}) | details | {"at": now(), "attempt": activity.info().attempt}
    _told.set(newest)
    return newest


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def silence() -> float:
    """Seconds since the most silent of this process's attempts was last heard of; 0 without any."""
    now = time.monotonic()
    return max((now - moment for moment in list(_last_beat.values())), default=0.0)


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
    try:
        activity.heartbeat(told(**details))
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
        activity.heartbeat(told(failed=reason))


def told_before() -> dict[str, Any]:
    """What the attempt before this one told last; empty where there was none."""
    details = activity.info().heartbeat_details
    return details[0] if details and isinstance(details[0], dict) else {}
