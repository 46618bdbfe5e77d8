"""Blobs named by their content: written once, checked whenever they are read."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import uuid
from contextlib import suppress
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from store import layout
from store.base import BlobStat, Progress, Store, silent
from store.errors import AlreadyExists, BlobCorrupt, Conflict, NotFound

TOUCH_AFTER = timedelta(days=1)
"""What is older than this is written again when something new refers to it: see keep_young. Far below any
age at which `tessera gc` removes things."""


def put_blob(store: Store, data: bytes | Path) -> str:
    """Stores the content under its sha256, which is returned. What is there already is not sent again.

    Raises BlobCorrupt where the stored blob cannot be this content, or where the file changed meanwhile.
    """
    sha256, size = digest(data)
    key = layout.blob(sha256)
    while True:
        found = store.stat(key)
        if found is None:
            with suppress(AlreadyExists):
                return _put_checked(store, key, data, (sha256, size))
        elif found.size != size:
            raise BlobCorrupt(f"{key} should have {size} bytes and does not; delete it and try again")
        elif keep_young(store, key, found, data):
            return sha256


def _put_checked(store: Store, key: str, data: bytes | Path, expected: tuple[str, int]) -> str:
    stat = store.put_new(key, data)
    if isinstance(data, Path) and stored_digest(store, key) != expected:
        store.delete(key, stat.version)
        raise BlobCorrupt(f"{data} changed while it was being stored; try again")
    return expected[0]


def keep_young(store: Store, key: str, stat: BlobStat, data: bytes | Path) -> bool:
    """To be called for a blob that something new is about to refer to. data: its content. False: it is gone.

    A collector removes an old blob by the version that it has seen. Whoever writes it again first keeps it,
    and who comes too late learns that it is gone.
    """
    if store.now() - stat.modified < TOUCH_AFTER:
        return True
    try:
        if isinstance(data, bytes):
            store.swap(key, data, stat.version)
        else:
            # A copy: what is edited while it is being sent would damage a blob that others use.
            with tempfile.NamedTemporaryFile(prefix="tessera-blob-") as copy:
                shutil.copyfile(data, copy.name)
                if digest(Path(copy.name)) != (key.rpartition("/")[2], stat.size):
                    raise BlobCorrupt(f"{data} changed while it was being stored; try again")
                store.swap(key, Path(copy.name), stat.version)
    except Conflict:
        return store.stat(key) is not None
    except NotFound:
        return False
    return True


def put_record(store: Store, key: str, data: bytes) -> bytes:
    """Creates a record that others may have made already; returns what is there then, made young."""
    while True:
        try:
            store.put_new(key, data)
            return data
        except AlreadyExists:
            pass
        with suppress(NotFound):
            stored, stat = store.get(key)
            if keep_young(store, key, stat, stored):
                return stored


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
