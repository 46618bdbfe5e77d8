"""The embedded farm, from the client's side: use the one that runs in the state folder, or start one.

A client holds clients.lock (shared) for as long as it needs the farm; the farm holds farm.lock
(exclusive) for as long as it lives, and leaves when it can take clients.lock exclusively. Locks vanish with
their process, so no SIGKILL leaves anything to clean up.
"""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from client.errors import Unreachable
from settings import Settings

READY_SECONDS = 90.0
"""How long a starting farm may take: the Temporal server and the first look at a slow disk."""
LOG_TAIL = 15


class FarmRecord(NamedTuple):
    """What farm.json says."""

    address: str
    ui: str
    pid: int


def farm_lock(state: Path) -> Path:
    return state / "farm.lock"


def clients_lock(state: Path) -> Path:
    return state / "clients.lock"


def farm_file(state: Path) -> Path:
    return state / "farm.json"


@contextmanager
def embedded_farm(settings: Settings) -> Iterator[FarmRecord]:
    """A running farm of this state folder; it stays at least until the block ends."""
    state = settings.state_dir
    try:
        state.mkdir(parents=True, exist_ok=True)
        lock = open(clients_lock(state), "a")  # noqa: SIM115  closed below
    except OSError as error:
        raise Unreachable(f"{state}: cannot keep the farm's state here: {error.strerror}") from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_SH)  # waits while a farm that nobody used is shutting down
        yield running_farm(state) or _start(state)


def running_farm(state: Path) -> FarmRecord | None:
    """The farm that is ready in this state folder, if there is one."""
    if not is_locked(farm_lock(state)):
        return None
    try:
        record = json.loads(farm_file(state).read_text())
        return FarmRecord(str(record["address"]), str(record["ui"]), int(record["pid"]))
    except (FileNotFoundError, ValueError, KeyError):
        return None


def is_locked(path: Path) -> bool:
    """Whether another process holds the lock."""
    try:
        with open(path, "a") as lock:
            return not try_lock(lock)
    except FileNotFoundError:
        return False


def try_lock(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _start(state: Path) -> FarmRecord:
    print("starting the embedded farm (Temporal server and workers)", file=sys.stderr)
    log_path = state / "dev.log"
    with open(log_path, "ab") as log:
        # -P: a file of the user's own in the working folder must not shadow our modules.
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "starter", "dev", "--while-used"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    end = time.monotonic() + READY_SECONDS
    while time.monotonic() < end:
        record = running_farm(state)
        if record is not None:
            return record
        # Where two clients start a farm at the same time, one of the two leaves at once.
        if process.poll() is not None and not is_locked(farm_lock(state)):
            break
        time.sleep(0.05)
    tail = "\n".join(log_path.read_text(errors="replace").splitlines()[-LOG_TAIL:])
    raise Unreachable(f"the embedded farm did not start; the end of {log_path}:\n{tail}")
