"""Blobs named by their content: written once, checked whenever they are read."""

from __future__ import annotations

import hashlib
import uuid
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from store import layout
from store.base import Progress, Store, silent
from store.errors import AlreadyExists, BlobCorrupt


def put_blob(store: Store, data: bytes | Path) -> str:
    """Stores the content under its sha256, which is returned. What is there already is not sent again.

    Raises BlobCorrupt where the stored blob cannot be this content, or where the file changed meanwhile.
    """
    sha256, size = digest(data)
    key = layout.blob(sha256)
    found = store.stat(key)
    if found is None:
        try:
            found = store.put_new(key, data)
        except AlreadyExists:
            found = store.stat(key)
        else:
            if isinstance(data, Path) and stored_digest(store, key) != (sha256, size):
                store.delete(key, found.version)
                raise BlobCorrupt(f"{data} changed while it was being stored; try again")
    if found is None or found.size != size:
        raise BlobCorrupt(f"{key} should have {size} bytes and does not; delete it and try again")
    return sha256


def get_blob(store: Store, sha256: str) -> bytes:
    """The content with this hash. Raises NotFound, and BlobCorrupt where the stored bytes have another."""
    key = layout.blob(sha256)
    data, _ = store.get(key)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise BlobCorrupt(
            f"{key} is damaged: its {len(data)} bytes have another hash; delete it and submit again"
        )
    return data


def digest(data: bytes | Path, progress: Progress = silent) -> tuple[str, int]:
    """(sha256 in hex, size in bytes) of bytes or of a file, which is read in pieces."""
    if isinstance(data, Path):
        with open(data, "rb") as file:
            return _stream_digest(file, progress)
    return _stream_digest(BytesIO(data), progress)


def stored_digest(store: Store, key: str, progress: Progress = silent) -> tuple[str, int]:
    """(sha256, size) of what the store gives back under the key. Raises NotFound."""
    with store.open(key) as stream:
        return _stream_digest(stream, progress)


def _stream_digest(stream: BinaryIO, progress: Progress) -> tuple[str, int]:
    sha256, size = hashlib.sha256(), 0
    while piece := stream.read(1 << 20):
        progress("hashing")
        sha256.update(piece)
        size += len(piece)
    return sha256.hexdigest(), size


def prove_writable(store: Store) -> None:
    """Writes a scratch blob and removes it: a worker that cannot write must not take work, for its refusal
    would end other people's frames. Raises the store's errors."""
    key = f"probes/{uuid.uuid4().hex}"
    store.put_new(key, b"")
    store.delete(key)
