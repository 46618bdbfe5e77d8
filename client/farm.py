"""The embedded farm, from the client's side: use the one that runs in the state folder, or start one.

A client holds clients.lock (shared) for as long as it needs the farm; the farm holds farm.lock
(exclusive) for as long as it lives, and leaves when it can take clients.lock exclusively. Locks vanish with
their process, so no SIGKILL leaves anything to clean up.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, NamedTuple

from client.errors import Unreachable
from settings import Settings

READY_SECONDS = 90.0
"""How long a starting farm may take: the Temporal server and the first look at a slow disk."""
POLL_SECONDS = 0.05
LOG_TAIL = 15


class FarmRecord(NamedTuple):
    """What farm.json says, once the farm is ready."""

    address: str
    ui: str
    pid: int
    while_used: bool
    """Whether it stops when no client uses it any more."""


def farm_lock(state: Path) -> Path:
    return state / "farm.lock"


def clients_lock(state: Path) -> Path:
    return state / "clients.lock"


def farm_file(state: Path) -> Path:
    return state / "farm.json"


@asynccontextmanager
async def farm_client(settings: Settings) -> AsyncIterator[None]:
    """Keeps a farm alive for the block. Waits first while an unused farm is shutting down."""
    state = settings.state_dir
    try:
        state.mkdir(parents=True, exist_ok=True)
        clients_lock(state).touch()
    except OSError as error:
        raise Unreachable(f"{state}: cannot keep the farm's state here: {error.strerror}") from error
    with clients_lock(state).open() as lock:
        while not try_lock(lock, fcntl.LOCK_SH):  # noqa: ASYNC110  a flock that blocks ignores Ctrl-C
            await asyncio.sleep(POLL_SECONDS)
        yield


async def farm(settings: Settings) -> FarmRecord:
    """The farm of this state folder, started if none runs. Only a client may ask: see farm_client."""
    return running_farm(settings.state_dir) or await _start(settings.state_dir)


def running_farm(state: Path) -> FarmRecord | None:
    """The farm that is ready in this state folder, if there is one."""
    if not is_locked(farm_lock(state)):
        return None
    try:
        return FarmRecord(**json.loads(farm_file(state).read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def is_locked(path: Path) -> bool:
    """Whether another process holds the lock. To find out it is taken for an instant, so a farm that starts
    just then has to try more than once."""
    try:
        with open(path) as lock:
            return not try_lock(lock)
    except FileNotFoundError:
        return False


def try_lock(lock: IO[str], kind: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def child_environment() -> dict[str, str]:
    """The environment in which `python -m` finds our modules, installed or not, whatever the working
    folder is: PYTHONSAFEPATH keeps a file of the user's own there from shadowing them."""
    here = str(Path(__file__).resolve().parents[1])
    paths = [here, *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1"}


async def _start(state: Path) -> FarmRecord:
    print("starting the embedded farm (Temporal server and workers)", file=sys.stderr)
    log_path = state / "dev.log"
    process: subprocess.Popen[bytes] | None = None
    end = time.monotonic() + READY_SECONDS
    while time.monotonic() < end:
        record = running_farm(state)
        if record is not None:
            return record
        ended = None if process is None else process.poll()
        if ended is not None and ended > 0:
            break
        # 0: it left because another one is the farm, started by another client or shutting down. Less than 0:
        # it was killed.
        if (process is None or ended is not None) and not is_locked(farm_lock(state)):
            process = _spawn(log_path)
        await asyncio.sleep(POLL_SECONDS)
    tail = "\n".join(log_path.read_text(errors="replace").splitlines()[-LOG_TAIL:])
    raise Unreachable(f"the embedded farm did not start; the end of {log_path}:\n{tail}")


def _spawn(log_path: Path) -> subprocess.Popen[bytes]:
    with open(log_path, "ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "starter", "dev", "--while-used"],
            env=child_environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
