"""What the stress runs share: a store to work on, processes that start fast, stops, and a table."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from tests.store.s3_server import BUCKET, running_server

FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(["boto3", "tests.stress.contender", "tests.stress.finalizer"])

PATIENCE = 120.0
"""Seconds without any progress after which a run has failed."""


@contextmanager
def fresh_store(kind: str) -> Iterator[str]:
    """The address of an empty store of the kind "local" or "s3", on a real server that ends with it."""
    with tempfile.TemporaryDirectory(prefix="tessera-stress-") as folder:
        if kind == "local":
            yield str(Path(folder) / "store")
            return
        with running_server(Path(folder) / "weed") as server:
            before = {name: os.environ.get(name) for name in server.environment}
            os.environ.update(server.environment)
            try:
                yield f"s3://{BUCKET}/{uuid.uuid4().hex}"
            finally:
                for name, value in before.items():
                    os.environ.pop(name) if value is None else os.environ.update({name: value})


def start(target: Callable[..., None], *arguments: Any) -> BaseProcess:
    """Runs target in a process that was forked from one that has everything loaded."""
    process = FORKED.Process(target=_enter, args=(dict(os.environ), target, arguments), daemon=True)
    process.start()
    return process


def _enter(environment: dict[str, str], target: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    os.environ.update(environment)  # the server's own is from when it was started
    target(*arguments)


def end(process: BaseProcess) -> None:
    process.kill()  # also of one that is stopped
    process.join()


def pid_of(process: BaseProcess) -> int:
    assert process.pid is not None
    return process.pid


def stop(process: BaseProcess) -> bool:
    """SIGSTOP; returns when the process stands. False where it has ended instead."""
    with suppress(ProcessLookupError):
        os.kill(pid_of(process), signal.SIGSTOP)
        while process.is_alive():
            if is_stopped(pid_of(process)):
                return True
            time.sleep(0.0005)
    return False


def is_stopped(pid: int) -> bool:
    with suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text()
        return re.search(r"^State:\s+T", status, re.MULTILINE) is not None
    return False


def go_on(process: BaseProcess) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid_of(process), signal.SIGCONT)


def table(title: str, rows: Mapping[str, object]) -> str:
    width = max(map(len, rows))
    lines = [f"{name:<{width}}  {_shown(value)}" for name, value in rows.items()]
    return "\n".join([title, "-" * len(title), *lines])


def _shown(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)
