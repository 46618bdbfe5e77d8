"""Publishing: pictures under the attempt's own name first, then the manifest by one create-only write.

That write is the commit. However often and wherever finalizing was interrupted or ran twice, there is
no manifest or one, it is whole, and what it names is in the store.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from store import layout
from store.base import Progress, Store, silent
from store.blobs import digest, stored_digest
from store.errors import AlreadyExists, BlobCorrupt, NotFound, OutputConflict, StoreUnavailable

PUBLISH_TRIES = 3


def put_verified(store: Store, key: str, data: bytes | Path, progress: Progress = silent) -> tuple[str, int]:
    """Stores data under a key that is this attempt's own, reads it back, and returns (sha256, size).

    Raises BlobCorrupt where the store gives back something else: nothing may refer to the key then.
    """
    expected = digest(data, progress)
    # Taken: by an earlier call of this attempt whose reply was lost. It is checked all the same.
    with suppress(AlreadyExists):
        store.put_new(key, data, progress)
    stored = stored_digest(store, key, progress)
    if stored != expected:
        raise BlobCorrupt(
            f"{key} reads back as {stored[1]} bytes, sha256 {stored[0][:16]}, and was written as "
            f"{expected[1]} bytes, {expected[0][:16]}; check the disk or the network, and finalize again"
        )
    return expected


def publish(store: Store, job_id: str, manifest: bytes, agrees: Callable[[bytes], bool]) -> bytes:
    """Publishes the manifest unless one is there; returns the one that is published then.

    agrees says whether an existing manifest tells of the same pictures; it may raise ValueError for one
    that it cannot read. Raises OutputConflict where it does not agree: a manifest is never overwritten.
    """
    key = layout.manifest(job_id)
    for _ in range(PUBLISH_TRIES):
        try:
            store.put_new(key, manifest)
            return manifest
        except AlreadyExists:
            pass
        try:
            existing, _stat = store.get(key)
        except NotFound:  # discarded between the two calls
            continue
        if existing == manifest or _agrees(existing, agrees):
            return existing
        raise OutputConflict(
            f"{key} is published with another picture, or cannot be read; it stays as it is: look at it, and "
            "discard the frame to render it anew"
        )
    raise StoreUnavailable(f"{key} was removed {PUBLISH_TRIES} times while it was being published; retry")


def _agrees(existing: bytes, agrees: Callable[[bytes], bool]) -> bool:
    try:
        return agrees(existing)
    except ValueError:
        return False
