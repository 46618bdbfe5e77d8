"""What the farm keeps its frames in, and how that is made to fail: a small disk, or S3 behind a proxy."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.store import s3_server
from tests.store.fault_proxy import CUT, RESET_AFTER, RESET_BEFORE, STALL, Gate, Proxy, running_proxy
from tests.store.s3_server import BUCKET, Address, free_ports, start_server, stop_server

DISK_BYTES = 256 << 20
After = Callable[[float, Callable[[], None]], None]
"""Does something after so many seconds."""


class LocalDisk:
    """A folder, on a file system of its own where one can be mounted."""

    def __init__(self, folder: Path, small: bool) -> None:
        self.small = small
        self._folder = folder
        self.stores = str(folder / "stores")
        self.environment: dict[str, str] = {}

    def fill(self, seconds: float, after: After) -> None:
        """Nothing can be written for that long."""
        ballast = self._folder / "ballast"
        with open(ballast, "ab", buffering=0) as file:
            try:
                while True:
                    file.write(b"\0" * 65536)
            except OSError:
                pass  # full, as it should be
        after(seconds, lambda: ballast.unlink(missing_ok=True))


@contextmanager
def local_disk(folder: Path) -> Iterator[LocalDisk]:
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
    small = subprocess.run(mount, check=False, capture_output=True).returncode == 0
    try:
        yield LocalDisk(folder, small)
    finally:
        if small:
            subprocess.run(["umount", "-l", str(folder)], check=True)


class S3:
    """A real server; workers and clients reach it through a proxy, the suite itself does not."""

    def __init__(self, address: Address, proxy: Proxy) -> None:
        self.proxy = proxy
        self.stores = f"s3://{BUCKET}"
        self.environment = s3_server.environment(proxy.endpoint)
        self._address = address
        self.server = start_server(address)
        self.wait()

    def wait(self) -> None:
        s3_server.wait_until_it_stores(self.server, self._address.folder / "weed.log")

    def kill(self, seconds: float, after: After) -> bool:
        """The server is away for that long. False: it is away already."""
        if self.server.process.poll() is not None:
            return False
        self.server.process.kill()
        self.server.process.wait()
        after(seconds, self._restart)
        return True

    def _restart(self) -> None:
        self.server = start_server(self._address)
        self.wait()

    def answer_with_errors(self, pick: float) -> None:
        status = (500, 503, 429)[int(3 * pick)]
        self.proxy.replace_faults([status] * int(4 + 30 * pick), "GET", "PUT", "HEAD", "DELETE")

    def stall(self, pick: float) -> None:
        self.proxy.replace_faults([STALL] * int(1 + 3 * pick), "GET", "PUT")

    def cut(self, pick: float) -> None:
        self.proxy.replace_faults([CUT] * int(2 + 10 * pick), "GET")

    def lose_replies(self, pick: float) -> None:
        fault = RESET_AFTER if pick < 0.8 else RESET_BEFORE
        self.proxy.replace_faults([fault] * int(1 + 6 * pick), "PUT", "DELETE")

    def hold_film_write(self) -> Gate:
        """Closes a gate before the next film's way into the store."""
        self.proxy.gate = Gate("PUT", "/films/", threading.Event(), threading.Event())
        return self.proxy.gate


@contextmanager
def s3_store(folder: Path) -> Iterator[S3]:
    folder.mkdir()
    address = Address(folder, free_ports(5))
    before = {name: os.environ.get(name) for name in s3_server.environment("")}
    with running_proxy(address.endpoint) as proxy:
        os.environ.update(s3_server.environment(address.endpoint))
        s3 = S3(address, proxy)
        try:
            yield s3
        finally:
            stop_server(s3.server)
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


Disturbed = LocalDisk | S3


def disturbed_store(kind: str, folder: Path) -> AbstractContextManager[Disturbed]:
    """kind: local or s3."""
    return local_disk(folder) if kind == "local" else s3_store(folder)
