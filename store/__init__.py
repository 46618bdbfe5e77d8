"""Durable blobs: what a frame is made of and what it becomes. Start at base.py, then layout.py."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from store.base import BlobStat, Store
from store.errors import (
    AlreadyExists,
    BlobCorrupt,
    Conflict,
    LeaseHeld,
    LeaseLost,
    Nondeterministic,
    NotFound,
    OutputConflict,
    StoreDenied,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from store.local import LocalStore

__all__ = [
    "AlreadyExists",
    "BlobCorrupt",
    "BlobStat",
    "Conflict",
    "LeaseHeld",
    "LeaseLost",
    "LocalStore",
    "Nondeterministic",
    "NotFound",
    "OutputConflict",
    "Store",
    "StoreDenied",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "open_store",
]


def open_store(url: str) -> Store:
    """The store at a folder's path, a file:// URL or s3://bucket/prefix.

    Raises StoreDenied where it cannot be used; an S3 server first has to prove that it honours conditions.
    """
    if "://" not in url:
        return LocalStore(Path(url).expanduser())
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path:
        return LocalStore(Path(unquote(parts.path)))
    if parts.scheme == "s3" and parts.netloc:
        from store.s3 import S3Store, prove  # boto3 takes a while to load

        store = S3Store(parts.netloc, parts.path)
        prove(store)
        return store
    raise StoreDenied(f"{url}: a store is a folder's path, a file:// URL or s3://bucket/prefix")
