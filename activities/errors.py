"""The one table from exceptions to error codes, and the context manager that applies it.

Every exception that can leave an activity passes here. What no rule knows is `internal`: it is retried,
seen by its type and message, and deserves a rule.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError, CancelledError

from activities.attempt import Cancelled, Stalled, WorkerLeaving, past_attempts, tell_end, watched
from contracts import ErrorCode
from store import errors as store
from tracer import errors as tracer

RULES: tuple[tuple[type[BaseException], ErrorCode], ...] = (
    (tracer.SceneInvalid, ErrorCode.SCENE_INVALID),
    (tracer.SceneUnsupported, ErrorCode.SCENE_UNSUPPORTED),
    (tracer.AssetMissing, ErrorCode.ASSET_MISSING),
    (tracer.SettingsInvalid, ErrorCode.SETTINGS_INVALID),
    # A film that failed its checks was replaced or set aside where that is possible; elsewhere the next
    # attempt reads the store again.
    (tracer.FilmInvalid, ErrorCode.STORAGE_UNAVAILABLE),
    (store.Nondeterministic, ErrorCode.NONDETERMINISTIC),
    (store.OutputConflict, ErrorCode.OUTPUT_CONFLICT),
    (store.LeaseHeld, ErrorCode.LEASE_HELD),
    (store.LeaseLost, ErrorCode.LEASE_LOST),
    (store.StoreDenied, ErrorCode.STORAGE_DENIED),
    (store.StoreFull, ErrorCode.STORAGE_FULL),
    (store.StoreUnavailable, ErrorCode.STORAGE_UNAVAILABLE),
    (store.BlobCorrupt, ErrorCode.STORAGE_UNAVAILABLE),
    (store.NotFound, ErrorCode.STORAGE_UNAVAILABLE),
    (store.StoreError, ErrorCode.INTERNAL),
    (MemoryError, ErrorCode.OUT_OF_MEMORY),
    (Stalled, ErrorCode.WORKER_LOST),
)
"""The first rule that matches wins, so subclasses stand before their bases."""

MESSAGE_LIMIT = 1000
"""Characters. Of an attempt that it retries Temporal keeps no failure above 4 KB (code and message are gone
then), which includes the stack of this raise; why the chain of causes is left to the log."""


HAND_OVER_PAUSE = timedelta(milliseconds=100)
"""Before the attempt that goes on where a worker left: nothing is broken that time would mend."""


class Refused(Exception):
    """A check of an activity itself failed; carries its code."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def code_of(error: BaseException) -> ErrorCode:
    if isinstance(error, Refused):
        return error.code
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ErrorCode.STORAGE_FULL  # of this machine's own temporary folder
    for kind, code in RULES:
        if isinstance(error, kind):
            return code
    return ErrorCode.INTERNAL


@contextmanager
def coded_errors(worker: str) -> Iterator[None]:
    """Turns any exception into an ApplicationError whose type is the code, and a cancel into Temporal's.

    worker is this worker's identity, kept with the failure. A step that its leaving worker stops is lost
    with it, and says so at once: a CancelledError that nobody asked for is refused by the server, which
    would wait for the heartbeat timeout then.
    """
    try:
        with watched(worker):
            yield
    except Cancelled:
        tell_end("stopped")
        raise CancelledError("stopped") from None
    except (CancelledError, asyncio.CancelledError):
        tell_end("stopped")
        raise
    except WorkerLeaving:
        tell_end(ErrorCode.WORKER_LOST)
        raise ApplicationError(
            "the worker was told to leave; another attempt goes on",
            {"attempt": activity.info().attempt, "worker": worker},
            type=ErrorCode.WORKER_LOST,
            next_retry_delay=HAND_OVER_PAUSE,
        ) from None
    except ApplicationError:
        raise
    except Exception as error:
        code, info = code_of(error), activity.info()
        message = str(error) or type(error).__name__
        if code is ErrorCode.INTERNAL:
            message = f"{type(error).__name__}: {message}"
        logging.getLogger("tessera").warning(
            "attempt failed",
            extra={"code": code, "attempt": info.attempt, "error": message},
            exc_info=code is ErrorCode.INTERNAL,
        )
        tell_end(code)
        raise ApplicationError(
            message[:MESSAGE_LIMIT],
            {"attempt": info.attempt, "worker": worker} | _past(info, code),
            type=code,
            non_retryable=code.is_terminal,
        ) from None


def _past(info: activity.Info, code: ErrorCode) -> dict[str, Any]:
    """The earlier attempts, in the failure that ends them all: only that one is in the history. In the others
    they would only use up the 4 KB."""
    policy = info.retry_policy
    last = code.is_terminal or (policy is not None and info.attempt == policy.maximum_attempts)
    past = past_attempts() if last else []
    return {"past": past} if past else {}
