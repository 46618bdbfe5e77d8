"""The clients: one `tessera render` a frame, started again until it says that the frame is done."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator

from client.errors import ExitCode
from contracts import DeadLetter
from store import NotFound, StoreError, layout
from tests.chaos.farm import ChaosFarm
from tests.chaos.reference import Reference
from tests.chaos.schedule import Frame

AT_ONCE = 4
"""Frames that run at the same time."""


class Order:
    """One frame that somebody wants."""

    def __init__(self, number: int, frame: Frame, reference: Reference) -> None:
        self.number, self.frame, self.reference = number, frame, reference
        self.job_id = reference.request.job_id
        self.began = time.monotonic()
        self.process: subprocess.Popen[bytes] | None = None
        self.done = False
        self.letters: list[DeadLetter] = []
        """One for each time that it was parked."""


class Clients:
    """Keeps AT_ONCE frames running until enough were ordered, and plays the operator of parked ones."""

    def __init__(self, farm: ChaosFarm, frames: Iterator[tuple[Frame, Reference]]) -> None:
        self._farm, self._frames = farm, frames
        self.orders: list[Order] = []
        self.killed = 0
        self.unreachable = 0
        """Clients that gave up because farm or store was away, as they say."""

    @property
    def running(self) -> list[Order]:
        return [order for order in self.orders if not order.done]

    def tick(self, more: bool) -> None:
        """more: whether new frames may be ordered."""
        for order in self.running:
            if order.process is None:
                self._start(order)
            elif (code := order.process.poll()) is not None:
                self._ended(order, code)
        if more and len(self.running) < AT_ONCE:
            frame, reference = next(self._frames)
            self.orders.append(Order(len(self.orders), frame, reference))

    def _start(self, order: Order) -> None:
        output = f"{order.number:04d}.exr"
        order.process = self._farm.start_tessera("render", *order.frame.arguments, "-o", output)

    def _ended(self, order: Order, code: int) -> None:
        order.process = None
        if code == ExitCode.DONE:
            order.done = True
        elif code == ExitCode.DEAD_LETTERED:
            self._retry(order)
        elif code == ExitCode.UNREACHABLE:
            self.unreachable += 1
        elif code == -signal.SIGKILL:
            self.killed += 1
        else:
            order.done = True
            self._farm.breaches.append(f"{order.job_id}: its client ended with code {code}")

    def _retry(self, order: Order) -> None:
        """What an operator does whose machines are well again."""
        if self._farm.poison is not None:
            return  # they are not yet; its client tells again
        try:
            data, _ = self._farm.store.get(layout.dead_letter(order.job_id))
        except (NotFound, StoreError):
            return  # its client tells again
        letter = DeadLetter.model_validate_json(data)
        if letter not in order.letters:
            order.letters.append(letter)
        self._farm.tessera("retry", order.job_id, code=None)
