"""One run: a farm, frames, faults on them until enough were done, and then the audit of what is left."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from settings import connect
from tests.chaos.clients import Clients, Order
from tests.chaos.disturbed_store import LocalDisk, disturbed_store
from tests.chaos.farm import LEAVE_SECONDS, ChaosFarm
from tests.chaos.faults import Done, Faults
from tests.chaos.history import History, read_history
from tests.chaos.reference import Reference, References
from tests.chaos.schedule import Frame, Kind, frames, kinds_for, schedule
from tests.chaos.watch import Beat, Watch

GAPS = (0.2, 1.4)
"""Seconds between two faults."""
REST_PATIENCE = 300.0
"""How long frames may take to end once nothing disturbs them any more."""


@dataclass
class Evidence:
    """What a run leaves to the audit."""

    store_kind: str
    seed: int
    seconds: float
    farm: ChaosFarm
    clients: Clients
    faults: list[Done]
    missed: dict[str, int]
    damaged: set[str]
    skipped: list[str]
    beats: list[Beat]
    histories: dict[str, tuple[History, int]]
    """By job: its newest run, and the number of its runs."""

    @property
    def orders(self) -> list[Order]:
        return self.clients.orders


class Run:
    def __init__(
        self,
        store_kind: str,
        seed: int,
        faults: int,
        frame_count: int,
        say: Callable[[str], None],
        *,
        without: frozenset[Kind] = frozenset(),
    ) -> None:
        """without: kinds that are left out."""
        self._without = without
        self._store_kind, self._seed = store_kind, seed
        self._wanted, self._frame_count, self._say = faults, frame_count, say

    def collect(self, folder: Path, references: References, audit: Callable[[Evidence], None]) -> None:
        """Runs, and gives the audit what there is while the store and the Temporal server still run."""
        folder.mkdir(exist_ok=True)
        with disturbed_store(self._store_kind, folder / "store") as store:
            farm = ChaosFarm(folder, store.stores, store.environment)
            clients = Clients(farm, ordered(references))
            faults = Faults(farm, store, clients)
            watch = Watch(f"127.0.0.1:{farm.port}", lambda: [o.job_id for o in clients.running])
            disk = isinstance(store, LocalDisk) and store.small
            kinds = [kind for kind in kinds_for(self._store_kind, disk) if kind not in self._without]
            skipped = (
                []
                if disk or self._store_kind != "local"
                else ["disk full: no small disk can be mounted here"]
            )
            try:
                farm.start()
                began = time.monotonic()
                with watch.watching():
                    self._disturb(farm, clients, faults, kinds)
                    faults.settle()
                    self._rest(farm, clients)
                seconds = time.monotonic() - began
                end_workers(farm)
                histories = asyncio.run(read_histories(f"127.0.0.1:{farm.port}", clients.orders))
                audit(
                    Evidence(
                        store_kind=self._store_kind,
                        seed=self._seed,
                        seconds=seconds,
                        farm=farm,
                        clients=clients,
                        faults=faults.done,
                        missed={kind.value: n for kind, n in faults.missed.items()},
                        damaged=faults.damaged,
                        skipped=skipped,
                        beats=watch.beats,
                        histories=histories,
                    )
                )
            finally:
                farm.close()

    def _disturb(self, farm: ChaosFarm, clients: Clients, faults: Faults, kinds: list[Kind]) -> None:
        coming, chance = schedule(self._seed, kinds), random.Random(self._seed)
        next_at, said = time.monotonic(), 0
        while len(faults.done) < self._wanted or len(clients.orders) < self._frame_count:
            farm.tick()
            clients.tick(more=len(clients.orders) < self._frame_count or len(faults.done) < self._wanted)
            faults.tick()
            # Each frame gets its share, however fast or slow the farm is.
            share = self._wanted * len(clients.orders) / self._frame_count
            room = faults.has_room and len(faults.done) + faults.armed < min(share, self._wanted)
            if time.monotonic() >= next_at and room:
                faults.begin(next(coming))
                next_at = time.monotonic() + chance.uniform(*GAPS)
            if len(faults.done) >= said + 20:
                said = len(faults.done)
                done = sum(order.done for order in clients.orders)
                self._say(f"{said} faults, {done} of {len(clients.orders)} frames done")
            time.sleep(0.004)

    def _rest(self, farm: ChaosFarm, clients: Clients) -> None:
        until = time.monotonic() + REST_PATIENCE
        while clients.running and time.monotonic() < until:
            farm.tick()
            clients.tick(more=False)
            farm.check_leaving()
            time.sleep(0.02)
        for order in clients.running:
            farm.breaches.append(f"{order.job_id}: not done {REST_PATIENCE:.0f} s after the last fault")


def ordered(references: References) -> Iterator[tuple[Frame, Reference]]:
    for frame in frames():
        yield frame, references.of(frame)


def end_workers(farm: ChaosFarm) -> None:
    """All leave on SIGTERM, as they should."""
    members = [member for member in farm.crew if member.process.poll() is None]
    for member in members:
        member.send(signal.SIGTERM)
    until = time.monotonic() + LEAVE_SECONDS
    while any(member.process.poll() is None for member in members) and time.monotonic() < until:
        time.sleep(0.05)
    for member in members:
        if member.process.poll() is None:
            farm.breaches.append(f"{member.role} worker does not leave on SIGTERM")
            member.process.kill()


async def read_histories(address: str, orders: list[Order]) -> dict[str, tuple[History, int]]:
    client = await connect(address)
    return {order.job_id: await read_history(client, order.job_id) for order in orders}
