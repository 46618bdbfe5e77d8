"""A store that tells how long each of its operations took and how it ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from store.base import BlobStat, Progress, Store, silent
from store.errors import AlreadyExists, Conflict, NotFound, StoreDenied, StoreFull, StoreUnavailable

Observe = Callable[[str, str, float], None]
"""(operation, result, seconds)."""

RESULTS: tuple[tuple[type[Exception], str], ...] = (
    (NotFound, "not_found"),
    (AlreadyExists, "already_exists"),
    (Conflict, "conflict"),
    (StoreUnavailable, "unavailable"),
    (StoreFull, "full"),
    (StoreDenied, "denied"),
)
"""What an operation ended with; "ok" without an error, "error" with any other one. The first three are
answers, not faults."""


def result_of(error: BaseException) -> str:
    if not isinstance(error, Exception):
        return "stopped"  # by its caller, through progress: no fault of the store
    return next((name for kind, name in RESULTS if isinstance(error, kind)), "error")


class MeasuredStore:
    """A Store around another one. observe is called from the thread that called the operation."""

    def __init__(self, store: Store, observe: Observe, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._observe = observe

    @contextmanager
    def _measured(self, operation: str) -> Iterator[None]:
        began, result = self._clock(), "ok"
        try:
            yield
        except BaseException as error:
            result = result_of(error)
            raise
        finally:
            self._observe(operation, result, self._clock() - began)

    def now(self) -> datetime:
        with self._measured("now"):
            return self._store.now()

    def put_new(self, key: str, data: bytes | Path, progress: Progress = silent) -> BlobStat:
        with self._measured("put_new"):
            return self._store.put_new(key, data, progress)

    def swap(self, key: str, data: bytes | Path, expected: str) -> BlobStat:
        with self._measured("swap"):
            return self._store.swap(key, data, expected)

    def get(self, key: str) -> tuple[bytes, BlobStat]:
        with self._measured("get"):
            return self._store.get(key)

    def open(self, key: str) -> BinaryIO:
        """Measures until the stream is there; reading it goes at its reader's pace."""
        with self._measured("open"):
            return self._store.open(key)

    def stat(self, key: str) -> BlobStat | None:
        with self._measured("stat"):
            return self._store.stat(key)

    def list(self, prefix: str) -> Iterator[BlobStat]:
        """Measures what the store takes, without what its caller does with each blob."""
        spent, result = 0.0, "ok"
        began = self._clock()
        try:
            for blob in self._store.list(prefix):
                spent += self._clock() - began
                yield blob
                began = self._clock()
            spent += self._clock() - began
        except Exception as error:
            result = result_of(error)
            raise
        finally:
            self._observe("list", result, spent)

    def delete(self, key: str, expected: str | None = None) -> None:
        with self._measured("delete"):
            self._store.delete(key, expected)
