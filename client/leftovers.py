"""What a killed farm left running: found by the process ids it wrote down, and ended before or beside the
next farm. On Linux the kernel ends the server with its supervisor; this is for all that slips through."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from client.errors import Unreachable

SERVER, WORKERS = "server", "workers"
LEAVE_SECONDS = 10.0


def write_pid(state: Path, name: str, pid: int) -> None:
    _pid_file(state, name).write_text(str(pid))


def end_leftover_server(state: Path) -> None:
    """Ends it at once: two servers on one database would damage it."""
    pid = leftover(state, SERVER)
    until = time.monotonic() + LEAVE_SECONDS
    while pid is not None:
        if time.monotonic() > until:
            raise Unreachable(f"the Temporal server of an earlier farm (process {pid}) does not end")
        kill_group(pid)
        time.sleep(0.02)
        pid = leftover(state, SERVER)


def leftover(state: Path, name: str) -> int | None:
    """The process of an earlier farm that still runs. Its number alone may by now be another process's."""
    try:
        pid = int(_pid_file(state, name).read_text())
    except (FileNotFoundError, ValueError):
        return None
    return pid if still_runs(pid, state, name) else None


def still_runs(pid: int, state: Path, name: str) -> bool:
    marks = {SERVER: ("start-dev", str(state)), WORKERS: ("worker", "--role")}[name]
    command = _command_of(pid)
    return all(mark in command for mark in marks)


def kill_group(pid: int) -> None:
    """The process and its children; each of ours leads a group of its own."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _pid_file(state: Path, name: str) -> Path:
    return state / f"{name}.pid"


def _command_of(pid: int) -> str:
    """The process's command line; empty for one that is dead, also if nobody has waited for it."""
    if Path("/proc/self/cmdline").exists():
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        except OSError:
            return ""
    listed = subprocess.run(
        ["ps", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return listed.stdout
