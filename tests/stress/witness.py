"""The witness of a lease: a resource that refuses stale fences, and that finds double holders without them.

It runs in the process that supervises, which is never stopped or killed. Holders tell it over a socket
what they do and until when their lease is theirs beyond doubt. All clocks are this machine's monotonic one.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Listener
from typing import NamedTuple


class Begin(NamedTuple):
    key: str
    fence: int
    pid: int
    until: float
    """No other process can hold the lease before this moment, if the lease keeps its promise."""
    after_release: bool
    waited: float
    """Seconds by the store's clock from the last write of the holder before to the take-over."""


class Act(NamedTuple):
    key: str
    fence: int
    checked: float
    """When the holder asked the lease whether it is still its own, before it acted."""
    until: float


class End(NamedTuple):
    """The holder does nothing more; said before it releases."""

    key: str
    fence: int


class Note(NamedTuple):
    """Something that a contender met and that is only counted."""

    what: str


Message = Begin | Act | End | Note


class Wait(NamedTuple):
    ended: float
    seconds: float
    after_release: bool


@dataclass
class Resource:
    """What the holders of one lease do: count up, one at a time. The last one is described."""

    fences: set[int] = field(default_factory=set, repr=False)
    highest: int = 0
    pid: int = 0
    until: float = 0.0
    held: bool = False
    count: int = 0


@dataclass
class Witness:
    resources: dict[str, Resource] = field(default_factory=dict)
    handovers: int = 0
    between_processes: int = 0
    late: int = 0
    """Acts with a stale fence of holders that were past their time: refused."""
    waits: list[Wait] = field(default_factory=list)
    notes: dict[str, int] = field(default_factory=dict)
    double_holders: list[str] = field(default_factory=list)
    repeated_fences: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def hear(self, message: Message) -> bool:
        """False tells the holder that its fence is stale."""
        with self.lock:
            now = time.monotonic()
            match message:
                case Begin():
                    return self._begin(message, now)
                case Act():
                    return self._act(message, now)
                case End():
                    resource = self.resources[message.key]
                    resource.held = resource.held and message.fence != resource.highest
                    return True
                case Note():
                    self.notes[message.what] = self.notes.get(message.what, 0) + 1
                    return True

    def _begin(self, told: Begin, now: float) -> bool:
        resource = self.resources.setdefault(told.key, Resource())
        if told.fence in resource.fences:
            self.repeated_fences.append(f"{told} began with a fence that was given before")
        resource.fences.add(told.fence)
        if told.fence < resource.highest:
            return self._stale(told, now)
        if resource.held and now < resource.until:
            self.double_holders.append(
                f"{told} began, {resource.until - now:.3f} s before {resource} was over"
            )
        self.handovers += resource.highest > 0
        self.between_processes += resource.pid not in (0, told.pid)
        self.waits.append(Wait(now, told.waited, told.after_release))
        resource.highest, resource.pid, resource.until = told.fence, told.pid, told.until
        resource.held = True
        return True

    def _act(self, told: Act, now: float) -> bool:
        resource = self.resources[told.key]
        if told.checked >= told.until:
            self.double_holders.append(f"{told} acted after a check that should have failed")
        if told.fence < resource.highest:
            return self._stale(told, now)
        resource.count += 1
        resource.until = told.until
        return True

    def _stale(self, told: Begin | Act, now: float) -> bool:
        if now < told.until:
            self.double_holders.append(f"{told} acted, {told.until - now:.3f} s before its time was over")
        self.late += 1
        return False


class Hearing:
    """Serves a witness on a socket until closed."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        self._listener = Listener(backlog=64)
        self.address = self._listener.address
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                threading.Thread(target=self._serve, args=(self._listener.accept(),), daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        with connection, suppress(EOFError, OSError):  # the holder was killed
            while True:
                connection.send(self._witness.hear(connection.recv()))

    def close(self) -> None:
        self._listener.close()
