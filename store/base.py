"""The Store protocol: the smallest set of operations that carries the system's guarantees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

Progress = Callable[[str], None]
"""Called often by long work; may raise to stop it."""


def silent(step: str) -> None:
    """Progress that nobody listens to."""


@contextmanager
def opened(data: bytes | Path) -> Iterator[BinaryIO]:
    """What a store writes, as a stream. OSError where a file cannot be read: that is not the store's."""
    if isinstance(data, bytes):
        yield BytesIO(data)
    else:
        with open(data, "rb") as file:
            yield file


class BlobStat(NamedTuple):
    """version changes with every write of the key, also of equal bytes; compare-and-swap takes it."""

    key: str
    size: int
    version: str
    modified: datetime
    """By the store's clock, with time zone."""


class Store(Protocol):
    """Blobs by key. Keys are relative paths of [A-Za-z0-9._=-] segments joined by "/"; no key is a
    folder of another. A blob is there whole or not at all, also after a crash in mid-write.

    data is bytes, or the path of a file that is streamed, with progress called for every piece.

    Errors: see store.errors; every method may raise StoreUnavailable, StoreFull (writes) and StoreDenied.
    """

    def now(self) -> datetime:
        """The store's own clock, by which BlobStat.modified is set."""

    def put_new(self, key: str, data: bytes | Path, progress: Progress = silent) -> BlobStat:
        """Create; AlreadyExists where the key is taken. Exactly one of many concurrent callers wins."""

    def swap(self, key: str, data: bytes | Path, expected: str) -> BlobStat:
        """Replace if the version is still `expected`; Conflict where it is not, NotFound where gone."""

    def get(self, key: str) -> tuple[bytes, BlobStat]:
        """The whole content with the version it had; NotFound."""

    def open(self, key: str) -> BinaryIO:
        """A stream of the content, for what is large; the caller closes it; NotFound."""

    def stat(self, key: str) -> BlobStat | None:
        """None where there is no such key."""

    def list(self, prefix: str) -> Iterator[BlobStat]:
        """All blobs whose key starts with prefix, in key order."""

    def delete(self, key: str, expected: str | None = None) -> None:
        """Remove if the version is still `expected` (None: any). Conflict. Absent is success."""
