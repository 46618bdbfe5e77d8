"""A real farm in a folder: the Temporal dev server and worker processes, to be killed at will."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from client.server import SHARING
from store import BlobStat, Store, open_store
from tests.workflows.farm import binary
from workflows import attributes

ROOT = Path(__file__).parents[2]
PATIENCE = 120.0
"""Seconds after which what has not happened is a failure; far above what any step takes."""


def poll(condition: Callable[[], Any], what: str, patience: float = PATIENCE, every: float = 0.05) -> Any:
    """Waits until condition gives something true, and returns it."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(every)
    raise AssertionError(f"{what}: not within {patience} s")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Farm:
    """Everything lives under folder. Processes are started and ended by their Popen and by nothing else."""

    def __init__(self, folder: Path, stores: str) -> None:
        """stores: where this farm's store is made, a folder or s3://bucket/prefix."""
        self.folder = folder
        self.port = free_port()
        self.store_url = f"{stores}/{uuid.uuid4().hex}"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.env = os.environ | {
            "TEMPORAL_ADDRESS": f"127.0.0.1:{self.port}",
            "TESSERA_STORE": self.store_url,
            "TESSERA_STATE_DIR": str(folder / "state"),
            "TESSERA_CHECKPOINT_SECONDS": "0.25",
            "PYTHONPATH": str(ROOT),
        }

    def _start(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        with open(self.folder / f"{name}.log", "ab") as log:
            process = subprocess.Popen(command, cwd=self.folder, env=self.env, stdout=log, stderr=log)
        self.processes.append(process)
        return process

    def start_server(self) -> subprocess.Popen[bytes]:
        names = [f"{key.name}={key._metadata_type}" for key in attributes.ALL]
        server = self._start(
            "server",
            [binary("temporal"), "server", "start-dev", "--headless", "--ip", "127.0.0.1"]
            + ["--port", str(self.port), "--db-filename", str(self.folder / "temporal.db")]
            + ["--dynamic-config-value", 'history.timerProcessorMaxTimeShift="50ms"']
            + SHARING
            + [part for name in names for part in ("--search-attribute", name)],
        )
        poll(lambda: self._listens() or server.poll(), "the Temporal server listens")
        assert server.poll() is None, (self.folder / "server.log").read_text()[-2000:]
        return server

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def start_worker(self, role: str, slots: int = 2) -> subprocess.Popen[bytes]:
        name = f"{role}-{len(self.processes)}"
        worker = self._start(name, [sys.executable, "-m", "worker", "--role", role, "--slots", str(slots)])
        log = self.folder / f"{name}.log"
        polls = f"{role} worker polls"  # its kernels may have to be compiled first
        poll(lambda: b"polling" in log.read_bytes() or worker.poll() is not None, polls, 5 * PATIENCE)
        assert worker.poll() is None, log.read_text()[-2000:]
        return worker

    def tessera(self, *arguments: str, code: int | None = 0, timeout: float = 240) -> dict[str, Any]:
        """Runs the command line with --json; the document it prints."""
        done = subprocess.run(
            [sys.executable, "-m", "starter", *arguments, "--json"],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
        text = done.stdout.decode()
        assert code is None or done.returncode == code, (done.returncode, text, done.stderr.decode()[-3000:])
        document: dict[str, Any] = json.loads(text) if text.strip() else {}
        return document

    def start_tessera(self, *arguments: str) -> subprocess.Popen[bytes]:
        return self._start(
            f"client-{len(self.processes)}", [sys.executable, "-m", "starter", *arguments, "--json"]
        )

    @cached_property
    def store(self) -> Store:
        return open_store(self.store_url)

    def films(self) -> list[BlobStat]:
        return list(self.store.list("films/"))

    def wait_for_films(self, count: int = 1) -> None:
        poll(lambda: len(self.films()) >= count, f"{count} films are in the store")

    def wait_for_status(self, job: str, *wanted: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            status = self.tessera("status", job, code=None)
            return status if status.get("status") in wanted else None

        found: dict[str, Any] = poll(look, f"{job} is {' or '.join(wanted)}")
        return found

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()


@contextmanager
def running_farm(folder: Path, stores: str, *roles: str) -> Iterator[Farm]:
    """A farm with a server and one worker of each role."""
    farm = Farm(folder, stores)
    try:
        farm.start_server()
        for role in roles:
            farm.start_worker(role)
        yield farm
    finally:
        farm.close()


def kill(process: subprocess.Popen[bytes], number: signal.Signals = signal.SIGKILL) -> None:
    process.send_signal(number)
    if number is signal.SIGKILL:
        process.wait()
