"""`tessera dev`: the real Temporal dev server and the workers on this machine, restarted when they die."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

from client.errors import Unreachable
from client.farm import (
    FarmRecord,
    child_environment,
    clients_lock,
    farm_file,
    farm_lock,
    running_farm,
    try_lock,
)
from client.leftovers import SERVER, WORKERS, end_leftover_server, kill_group, leftover, still_runs, write_pid
from client.server import listens, remembered_ports, server_command
from settings import Settings

SERVER_SECONDS = 60.0
RESTART_SECONDS = 1.0
DRAIN_SECONDS = 40.0
"""Longer than a worker's own grace (workflows/policies.py)."""
LOCK_SECONDS = 2.0
"""How long a farm.lock must be held to be another farm's: clients that look take it for an instant."""
UNUSED_SECONDS = 1.0
"""How often a farm looks whether anybody uses it."""
PR_SET_PDEATHSIG = 1


def run_dev(settings: Settings, while_used: bool) -> int:
    """Runs until SIGTERM or SIGINT; with while_used also until no client uses it any more.

    Where a farm runs here already: with while_used leaves it alone; else keeps it running, as a client
    does, and takes its place when it ends.
    """
    state = settings.state_dir.resolve()
    state.mkdir(parents=True, exist_ok=True)
    with open(farm_lock(state), "a") as lock, open(clients_lock(state), "a") as clients:
        if not while_used:
            fcntl.flock(clients, fcntl.LOCK_SH)
        if not _take_place(state, lock, wait=not while_used):
            return 0
        end_leftover_server(state)
        DevFarm(state, clients if while_used else None).run()
    return 0


def _take_place(state: Path, lock: IO[str], wait: bool) -> bool:
    """Whether this process is the farm of the state folder now."""
    began, told = time.monotonic(), False
    while not try_lock(lock):
        if time.monotonic() - began > LOCK_SECONDS:
            if not wait:
                return False
            if not told:
                record = running_farm(state)
                at = f", Web UI at {record.ui}" if record else ""
                print(f"a farm runs here already{at}; keeping it running", file=sys.stderr, flush=True)
                told = True
        time.sleep(0.05)
    return True


class DevFarm:
    """One server and one `worker --role all`, and their supervisor."""

    def __init__(self, state: Path, clients: IO[str] | None) -> None:
        self._state = state
        self._clients = clients
        self._stopping = False
        self._port, self._ui_port = remembered_ports(state)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._next_start: dict[str, float] = {}
        self._old_workers = leftover(state, WORKERS)
        """Of a farm that was killed: they store what they have, but are not trusted to end by themselves."""
        self._old_workers_until = time.monotonic() + DRAIN_SECONDS

    def run(self) -> None:
        farm_file(self._state).unlink(missing_ok=True)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        try:
            self._keep_running(SERVER)
            self._wait_for_server()
            self._announce()
            looked = time.monotonic()
            while not self._stopping:
                self._keep_running(SERVER)
                self._keep_running(WORKERS)
                if self._old_workers is not None and time.monotonic() > self._old_workers_until:
                    self._end_old_workers()
                time.sleep(0.1)
                if self._clients is not None and time.monotonic() - looked > UNUSED_SECONDS:
                    looked = time.monotonic()
                    self._stopping |= try_lock(self._clients)  # held from now on: newcomers wait
        finally:
            farm_file(self._state).unlink(missing_ok=True)
            for name in (WORKERS, SERVER):
                end(self._processes.get(name))
            self._end_old_workers()

    def _stop(self, _number: int, _frame: object) -> None:
        self._stopping = True

    def _keep_running(self, name: str) -> None:
        process = self._processes.get(name)
        if process is not None and process.poll() is None:
            return
        if process is not None:
            print(f"{name} ended with {process.returncode}, starting it again", file=sys.stderr, flush=True)
            del self._processes[name]
            self._next_start[name] = time.monotonic() + RESTART_SECONDS  # no tight loop of dying processes
        elif time.monotonic() >= self._next_start.get(name, 0.0):
            self._processes[name] = self._start(name)

    def _start(self, name: str) -> subprocess.Popen[bytes]:
        if name == SERVER:
            command = server_command(self._state, self._port, self._ui_port)
            process = self._spawn(name, command, signal.SIGKILL)
        else:
            # Orphaned workers get the chance to store what they have.
            command = [sys.executable, "-m", "worker", "--role", "all"]
            process = self._spawn(name, command, signal.SIGTERM)
        write_pid(self._state, name, process.pid)
        return process

    def _spawn(self, name: str, command: list[str], when_orphaned: signal.Signals) -> subprocess.Popen[bytes]:
        with open(self._state / f"{name}.log", "ab") as log:
            return subprocess.Popen(
                command,
                env=child_environment() | {"TEMPORAL_ADDRESS": f"127.0.0.1:{self._port}"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the supervisor, which drains
                preexec_fn=_die_with_parent(when_orphaned),  # noqa: PLW1509  no threads in this process
            )

    def _wait_for_server(self) -> None:
        until = time.monotonic() + SERVER_SECONDS
        while not listens(self._port) and not self._stopping:
            if time.monotonic() > until or self._processes[SERVER].poll() is not None:
                raise Unreachable(f"the Temporal server did not start; see {self._state / 'server.log'}")
            time.sleep(0.05)

    def _end_old_workers(self) -> None:
        # Asked again: the number may be another process's by now.
        if self._old_workers is not None and still_runs(self._old_workers, self._state, WORKERS):
            kill_group(self._old_workers)
        self._old_workers = None

    def _announce(self) -> None:
        record = FarmRecord(
            address=f"127.0.0.1:{self._port}",
            ui=f"http://127.0.0.1:{self._ui_port}",
            pid=os.getpid(),
            while_used=self._clients is not None,
        )
        temporary = farm_file(self._state).with_suffix(".new")
        temporary.write_text(json.dumps(record._asdict()))
        temporary.replace(farm_file(self._state))
        print(f"Temporal at {record.address}, Web UI at {record.ui}", file=sys.stderr, flush=True)


def end(process: subprocess.Popen[bytes] | None) -> None:
    """SIGTERM, time to drain, SIGKILL for what is left of its group."""
    if process is None or process.poll() is not None:
        return
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(DRAIN_SECONDS)
    kill_group(process.pid)
    process.wait()


def _die_with_parent(number: signal.Signals) -> Callable[[], None] | None:
    """On Linux the kernel signals the child when this process dies, also by SIGKILL."""
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    libc, parent = ctypes.CDLL(None), os.getpid()

    def ask() -> None:
        libc.prctl(PR_SET_PDEATHSIG, int(number))
        if os.getppid() != parent:  # it died before the kernel was asked
            os._exit(1)

    return ask
