"""The farm that is disturbed: a crew of workers and a server that are started again whenever they end."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.system.farm import Farm

CREW = ("control", "tiles", "tiles", "isolated")
RESTART_SECONDS = 1.0
"""Between the end of a worker that nobody killed and its next start: it could not reach something."""
LEAVE_SECONDS = 60.0
"""A worker that is still there so long after SIGTERM does not hand over, it hangs."""


class Member:
    """One place in the crew and the process that has it at the moment."""

    def __init__(
        self, role: str, process: subprocess.Popen[bytes], log: Path, poisoned: bool = False
    ) -> None:
        self.role, self.process, self.log = role, process, log
        self.poisoned = poisoned
        """Whether it may die of a tile."""
        self.ending: signal.Signals | None = None
        """The signal that ends it, once it was sent."""
        self.signalled = 0.0
        self.stopped = False

    @property
    def polls(self) -> bool:
        return b'"polling"' in self.log.read_bytes()

    def send(self, number: signal.Signals) -> None:
        """Any signal; one that has ended meanwhile gets none."""
        if self.process.poll() is not None:
            return
        self.process.send_signal(number)
        if number in (signal.SIGKILL, signal.SIGTERM):
            self.ending, self.signalled = number, time.monotonic()
        self.stopped = number is signal.SIGSTOP


class Later(NamedTuple):
    """Something to be done at a time: the end of a fault."""

    at: float
    do: Callable[[], None]


class ChaosFarm(Farm):
    """All runs in one thread: whoever waits calls `tick`, which does what is due."""

    def __init__(self, folder: Path, stores: str, environment: dict[str, str]) -> None:
        super().__init__(folder, stores)
        self.temporary = folder / "tmp"
        """What finalizers work in."""
        self.temporary.mkdir()
        self.env |= environment | {"TMPDIR": str(self.temporary)}
        self.crew: list[Member] = []
        self.poison: str | None = None
        """A tile that kills each process that renders it, in workers that start from now on."""
        self.server: subprocess.Popen[bytes] | None = None
        self.breaches: list[str] = []
        """What processes did that they must not do."""
        self.died_of_absence = 0
        """Workers that ended before they polled: the server or the store was away."""
        self._later: list[Later] = []

    def start(self) -> None:
        self.server = self.start_server()
        self.crew = [self._member(role) for role in CREW]
        for member in self.crew:
            self.wait(lambda member=member: member.polls, f"{member.role} polls")  # type: ignore[misc]

    def _member(self, role: str) -> Member:
        name = f"{role}-{len(self.processes)}"
        command = ["worker", "--role", role, "--slots", "2"]
        poisoned = self.poison is not None and role != "control"
        if poisoned:
            command = ["tests.system.bad_worker", "segfault", role, str(self.poison)]
        process = self._start(name, [sys.executable, "-m", *command])
        (self.folder / f"{name}.pid").write_text(str(process.pid))
        return Member(role, process, self.folder / f"{name}.log", poisoned)

    # --- time -------------------------------------------------------------------------------------

    def after(self, seconds: float, do: Callable[[], None]) -> None:
        self._later.append(Later(time.monotonic() + seconds, do))

    @property
    def is_calm(self) -> bool:
        """Whether no fault still lasts."""
        return not self._later and not any(member.stopped for member in self.crew)

    def tick(self) -> None:
        """Ends the faults whose time is over, and starts again what has ended."""
        now = time.monotonic()
        due = [later for later in self._later if later.at <= now]
        self._later = [later for later in self._later if later.at > now]
        for later in due:
            later.do()
        for place, member in enumerate(self.crew):
            if member.process.poll() is not None:
                self._replace(place, member)

    def wait(self, condition: Callable[[], Any], what: str, patience: float = 120.0) -> Any:
        """Ticks until the condition gives something true, and returns that."""
        end = time.monotonic() + patience
        while time.monotonic() < end:
            self.tick()
            if found := condition():
                return found
            time.sleep(0.02)
        raise AssertionError(f"{what}: not within {patience} s")

    # --- the crew ---------------------------------------------------------------------------------

    def _replace(self, place: int, member: Member) -> None:
        code = member.process.returncode
        if member.poisoned and code == -signal.SIGSEGV:
            member.ending = signal.SIGKILL  # as good as
        if member.ending is None or (member.ending is signal.SIGTERM and code not in (0, -signal.SIGTERM)):
            self._died(member, code)
            # It stays in its place, dead, until its successor may start.
            member.ending = signal.SIGKILL
            member.signalled = time.monotonic() + RESTART_SECONDS
        if time.monotonic() >= member.signalled:
            self.crew[place] = self._member(member.role)

    def _died(self, member: Member, code: int) -> None:
        if member.polls:
            tail = member.log.read_text(errors="replace")[-300:]
            self.breaches.append(f"{member.role} worker ended by itself with code {code}: {tail}")
        else:
            self.died_of_absence += 1

    def members(self, role: str) -> list[Member]:
        """Those that live and are not on their way out."""
        return [m for m in self.crew if m.role == role and m.process.poll() is None and m.ending is None]

    def check_leaving(self) -> None:
        """A breach for each worker that does not leave after SIGTERM."""
        for member in self.crew:
            late = time.monotonic() - member.signalled > LEAVE_SECONDS
            if member.ending is signal.SIGTERM and member.process.poll() is None and late:
                self.breaches.append(f"{member.role} worker does not leave on SIGTERM")
                member.send(signal.SIGKILL)

    # --- the server -------------------------------------------------------------------------------

    def kill_server(self, seconds: float) -> bool:
        """Temporal is away for that long. False: it is away already."""
        if self.server is None or self.server.poll() is not None:
            return False
        self.server.kill()
        self.server.wait()
        self.after(seconds, self._restart_server)
        return True

    def _restart_server(self) -> None:
        self.server = self.start_server()
