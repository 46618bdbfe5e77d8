"""The store on a local file system, for the processes of one host. Blobs are plain files.

A new blob is written to a temporary file, synced, and given its name by link(2), which refuses a name
that is taken (rename(2) would replace it). A swap compares versions under flock(2) and renames. So a
name is never seen half-written, and what was acknowledged survives a power cut. A process that is
stopped (SIGSTOP) in the microseconds in which it holds a lock stops the swaps and deletes of the keys
that share the lock until it goes on or ends: others are told so by StoreUnavailable and never wait for it.
Nothing may break such a lock, since the stopped process would rename when it goes on.

NFS lies about the replies of link: several hosts need the S3 back end.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import socket
import stat
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from store.base import BlobStat, Progress, opened, silent
from store.errors import (
    AlreadyExists,
    Conflict,
    NotFound,
    StoreDenied,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from store.layout import SEGMENT, check_key

OWN_FOLDER = ".store"
"""Temporary files and locks, below the root. The dot keeps it apart from every key."""
PIECE = 1 << 20
LEFTOVER_SECONDS = 60.0
"""Younger temporary files are let be: their writer may not have taken its lock yet."""
LOCK_SECONDS = 5.0
"""How long to wait for a lock that any process that runs holds for microseconds. Less than the heartbeat
timeout of the work around: a thread that waited for ever would be a worker's slot lost without a word."""
LOCK_PAUSE = 0.001

_FAULTS: dict[int, tuple[type[StoreError], str]] = {
    errno.ENOSPC: (StoreFull, "make room on the disk"),
    errno.EDQUOT: (StoreFull, "make room, or raise the quota"),
    errno.EROFS: (StoreDenied, "make the file system writable"),
    errno.EACCES: (StoreDenied, "give this user the right to read and write below the root"),
    errno.EPERM: (StoreDenied, "give this user the right, on a file system that has hard links"),
    errno.EOPNOTSUPP: (StoreDenied, "use a file system that has hard links and file locks"),
    errno.EXDEV: (StoreDenied, "keep everything below the root on one file system"),
    errno.ENAMETOOLONG: (StoreDenied, "give the store a shorter root"),
    errno.ELOOP: (StoreDenied, "remove the circle of symbolic links"),
}
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR)


class LocalStore:
    """store.base.Store below a folder, which is made if it is not there. See the module for how.

    A root that vanishes later is StoreDenied and is never made again: what came back empty is another
    store, and a frame must not go on in it as if nothing had been rendered.
    """

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.abspath(root))  # the working directory may change later
        self._temporaries = self.root / OWN_FOLDER / "tmp"
        self._locks = self.root / OWN_FOLDER / "locks"
        try:
            missing = [f for f in (self._locks, self._temporaries, *self._locks.parents) if not f.exists()]
            for folder in (self._temporaries, self._locks):
                folder.mkdir(parents=True, exist_ok=True)
            for folder in missing:
                _sync_folder(folder.parent)
        except OSError as error:
            kind, remedy = _FAULTS.get(error.errno or 0, (StoreDenied, "choose another folder"))
            raise kind(f"cannot use {self.root} as a store: {error}; {remedy}") from error

    def now(self) -> datetime:
        return datetime.now(UTC)

    def put_new(self, key: str, data: bytes | Path, progress: Progress = silent) -> BlobStat:
        path = self._path(key)
        with (
            opened(data) as source,
            self._errors("create", key),
            self._temporary(source, time.time_ns(), progress) as (temporary, status),
        ):
            self._link(temporary, path, key)
            _sync_folder(path.parent)
        return _blob_stat(key, status)

    def swap(self, key: str, data: bytes | Path, expected: str) -> BlobStat:
        path = self._path(key)
        before = self._require(key, expected)
        # Later than the old version even within one tick of the clock and after it was set back.
        stamp = max(time.time_ns(), _version_stamp(before.version) + 1)
        with (
            opened(data) as source,
            self._errors("replace", key),
            self._temporary(source, stamp) as (temporary, status),
        ):
            with self._lock(key):
                self._require(key, expected)
                os.rename(temporary, path)
            _sync_folder(path.parent)
        return _blob_stat(key, status)

    def get(self, key: str) -> tuple[bytes, BlobStat]:
        with self._errors("read", key), open(self._path(key), "rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            data = file.readall()
        if len(data) != status.st_size:
            raise StoreUnavailable(f"read {len(data)} of {status.st_size} bytes of {key}; retry")
        return data, _blob_stat(key, status)

    def open(self, key: str) -> BinaryIO:
        with self._errors("open", key):
            return open(self._path(key), "rb")

    def stat(self, key: str) -> BlobStat | None:
        try:
            with self._errors("look up", key):
                status = os.stat(self._path(key))
        except NotFound:
            return None
        return None if stat.S_ISDIR(status.st_mode) else _blob_stat(key, status)

    def list(self, prefix: str) -> Iterator[BlobStat]:
        folder = prefix.rpartition("/")[0]
        if folder:
            check_key(folder)
        return self._walk(folder, prefix)

    def delete(self, key: str, expected: str | None = None) -> None:
        path = self._path(key)
        # Under the lock also without a version: a swap that has compared must not bring the key back.
        with suppress(NotFound), self._errors("delete", key):
            with self._lock(key):
                if expected is not None:
                    self._require(key, expected)
                os.unlink(path)
            _sync_folder(path.parent)

    def remove_leftovers(self) -> int:
        """Removes the temporary files of writers that were killed, and says how many. Safe at any time:
        a living writer holds the lock of its file."""
        removed = 0
        with self._errors("clean up", OWN_FOLDER):
            for path in self._temporaries.iterdir():
                with suppress(FileNotFoundError, BlockingIOError), open(path, "rb") as file:
                    if time.time() - os.fstat(file.fileno()).st_mtime > LEFTOVER_SECONDS:
                        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        path.unlink()
                        removed += 1
        return removed

    # --- parts of the above -----------------------------------------------------------------------

    def _path(self, key: str) -> Path:
        return self.root / check_key(key)

    @contextmanager
    def _temporary(
        self, source: BinaryIO, stamp: int, progress: Progress = silent
    ) -> Iterator[tuple[Path, os.stat_result]]:
        """A synced copy of source that bears the modification time `stamp` (ns), removed at the end."""
        host = "".join(c for c in socket.gethostname() if c.isalnum())
        path = self._temporaries / f"{host}-{os.getpid()}-{uuid.uuid4().hex}"
        try:
            with open(path, "xb") as file:
                fcntl.flock(file, fcntl.LOCK_EX)  # tells remove_leftovers that the writer lives
                while piece := source.read(PIECE):
                    progress("writing")
                    file.write(piece)
                file.flush()
                os.utime(file.fileno(), ns=(stamp, stamp))
                os.fsync(file.fileno())
                status = os.fstat(file.fileno())
                if status.st_mtime_ns != stamp:  # then versions could repeat
                    raise StoreDenied(f"the file system of {self.root} keeps no nanoseconds; use another")
                yield path, status
        finally:
            path.unlink(missing_ok=True)

    def _link(self, temporary: Path, path: Path, key: str) -> None:
        """Gives the file its name, or AlreadyExists; makes the folders above where they are not there."""
        try:
            try:
                os.link(temporary, path)
            except FileNotFoundError:
                self._make_folders(path.parent)
                os.link(temporary, path)
        except FileExistsError:
            if path.is_dir():
                raise ValueError(f"{key} is a folder of other keys, so it cannot be a key") from None
            raise AlreadyExists(f"{key} is taken ({path})") from None
        except NotADirectoryError:
            raise ValueError(f"{key} lies below another key, so it cannot be a key") from None

    def _make_folders(self, folder: Path) -> None:
        """Makes the folders between the root and a key; a name in an unsynced folder could be lost."""
        if folder != self.root:
            self._make_folders(folder.parent)
            with suppress(FileExistsError):
                os.mkdir(folder)
            _sync_folder(folder.parent)

    @contextmanager
    def _lock(self, key: str) -> Iterator[None]:
        """One of 256 files by the key's hash. They are never removed: a removed file that a process still
        holds would let a second one in."""
        number = hashlib.sha256(key.encode()).hexdigest()[:2]
        with open(self._locks / number, "ab") as file:
            end = time.monotonic() + LOCK_SECONDS
            while not _try_lock(file):
                if time.monotonic() > end:
                    raise StoreUnavailable(
                        f"{key} has been locked for {LOCK_SECONDS:g} s by {_lock_holder(file)}, which must "
                        "be stopped or hung: let it go on, or end it"
                    )
                time.sleep(LOCK_PAUSE)
            yield

    def _require(self, key: str, expected: str) -> BlobStat:
        found = self.stat(key)
        if found is None:
            raise NotFound(f"{key} is not in the store ({self.root})")
        if found.version != expected:
            raise Conflict(f"{key} has version {found.version}, not {expected}; read it again")
        return found

    def _walk(self, folder: str, prefix: str) -> Iterator[BlobStat]:
        try:
            with self._errors("list", folder or "."), os.scandir(self.root / folder) as entries:
                # A folder sorts as "name/": "a-b" is before "a/c" in key order.
                names = sorted(e.name + "/" * e.is_dir() for e in entries if SEGMENT.fullmatch(e.name))
        except NotFound:
            return
        for name in names:
            key = f"{folder}/{name}" if folder else name
            if not key.startswith(prefix):
                continue
            if name.endswith("/"):
                yield from self._walk(key[:-1], prefix)
            elif (found := self.stat(key)) is not None:
                yield found

    @contextmanager
    def _errors(self, action: str, key: str) -> Iterator[None]:
        """The one place where an OSError becomes an error of the store."""
        try:
            yield
        except OSError as error:
            at = f"cannot {action} {key} in {self.root}: {error.strerror or error}"
            if error.errno in _ABSENT and not (self._temporaries.is_dir() and self._locks.is_dir()):
                raise StoreDenied(
                    f"{at}; the root is gone or another one ({self.root / OWN_FOLDER} is missing): mount or "
                    "restore it, or start anew with an empty store"
                ) from error
            if error.errno in _ABSENT:
                raise NotFound(at) from error
            kind, remedy = _FAULTS.get(
                error.errno or 0, (StoreUnavailable, "retry; if it stays, check the disk")
            )
            raise kind(f"{at}; {remedy}") from error


def _blob_stat(key: str, status: os.stat_result) -> BlobStat:
    """The version is the stamp that the writer set and the inode: see swap and _temporary."""
    modified = datetime.fromtimestamp(status.st_mtime_ns / 1e9, UTC)
    return BlobStat(key, status.st_size, f"{status.st_mtime_ns}-{status.st_ino}", modified)


def _version_stamp(version: str) -> int:
    return int(version.partition("-")[0])


def _try_lock(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lock_holder(file: BinaryIO) -> str:
    """For a person to look at. Linux alone tells: "1: FLOCK ADVISORY WRITE <pid> <device>:<inode> 0 EOF"."""
    inode = str(os.fstat(file.fileno()).st_ino)
    with suppress(OSError):
        for line in Path("/proc/locks").read_text().splitlines():
            _, kind, _, _, pid, place, *_ = line.replace("->", "").split()
            if kind == "FLOCK" and place.rpartition(":")[2] == inode:
                return f"process {pid}"
    return "another process"


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
