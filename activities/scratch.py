"""Folders for files that an activity makes on its way. One that was killed cannot remove its own: the next
worker that starts on the machine does, or the disk would fill with the pictures of killed finalizers."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "tessera-finalize-"
LEFTOVER_SECONDS = 60.0
"""Younger folders are let be: who made one may not have locked it yet."""


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """An empty folder in the machine's temporary one, removed at the end."""
    with tempfile.TemporaryDirectory(prefix=PREFIX) as name:
        handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)  # the kernel lets it go when this process ends, however
            yield Path(name)
        finally:
            os.close(handle)


def remove_leftovers(within: Path) -> int:
    """Removes the folders that killed processes left in a temporary folder, and says how many."""
    removed = 0
    for folder in within.glob(PREFIX + "*"):
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:  # it has just gone, or is not ours
            continue
        try:
            if time.time() - os.fstat(handle).st_mtime > LEFTOVER_SECONDS:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
                removed += 1
        except BlockingIOError:  # its process lives
            continue
        finally:
            os.close(handle)
    return removed
