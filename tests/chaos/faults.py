"""How each fault is done. Signals hit at once; named points are armed and met later."""

from __future__ import annotations

import signal
import time
from collections import Counter
from datetime import UTC, datetime
from typing import NamedTuple

from store import Conflict, NotFound, StoreError, layout
from tests.chaos.clients import Clients, Order
from tests.chaos.disturbed_store import S3, Disturbed, LocalDisk
from tests.chaos.farm import ChaosFarm, Member
from tests.chaos.points import Armed, Points
from tests.chaos.schedule import Fault, Kind

SIGNALS = {
    Kind.KILL: signal.SIGKILL,
    Kind.PAUSE: signal.SIGSTOP,
    Kind.FREEZE: signal.SIGSTOP,
    Kind.TERM: signal.SIGTERM,
}
POINTS = frozenset(
    {
        Kind.CHECKPOINTED,
        Kind.WRITING_FILM,
        Kind.UNREPORTED,
        Kind.RENEWING,
        Kind.UNPUBLISHED,
        Kind.PUBLISHED,
    }
)
POISON_SECONDS = 240.0
"""A poisoned farm is well again after so long, if no frame was parked. A round of a tile takes four attempts,
each of which ends by its heartbeat timeout, and one in isolation two more."""
MOST_ARMED = 6
"""Named points that are waited for at the same time."""


class Done(NamedTuple):
    """A fault that was done, and when: what explains a lost attempt has to lie before it."""

    fault: Fault
    at: datetime


class Faults:
    def __init__(self, farm: ChaosFarm, store: Disturbed, clients: Clients) -> None:
        self._farm, self._store, self._clients = farm, store, clients
        self._points = Points(farm, store, clients)
        self._armed: list[Armed] = []
        self.done: list[Done] = []
        self._poisoned: tuple[Order, float] | None = None
        """Whose tile is the poison, and until when."""
        self.missed: Counter[Kind] = Counter()
        """Points that were not met in time, and faults that found nothing to hit."""
        self.damaged: set[str] = set()
        """Keys of the films in which a bit was flipped."""

    @property
    def has_room(self) -> bool:
        return len(self._armed) < MOST_ARMED

    @property
    def armed(self) -> int:
        return len(self._armed)

    def begin(self, fault: Fault) -> None:
        if fault.kind in POINTS:
            self._armed.append(self._points.arm(fault))
            return
        try:
            hit = self._do(fault)
        except StoreError:  # another fault keeps the store away
            hit = False
        self._count(fault, hit)

    def tick(self) -> None:
        """Does the armed faults whose point is there."""
        for armed in self._armed[:]:
            if met := armed.look():
                self._armed.remove(armed)
                self._count(armed.fault, met)
            elif armed.is_late:
                self._armed.remove(armed)
                self._count(armed.fault, False)
        self._cure_if_parked()

    def _count(self, fault: Fault, hit: bool) -> None:
        if hit:
            self.done.append(Done(fault, datetime.now(UTC)))
        else:
            self.missed[fault.kind] += 1

    def _do(self, fault: Fault) -> bool:
        match fault.kind:
            case Kind.KILL | Kind.PAUSE | Kind.FREEZE | Kind.TERM:
                return self._signal(fault)
            case Kind.TEMPORAL:
                return self._farm.kill_server(fault.seconds)
            case Kind.CLIENT:
                return self._kill_client(fault)
            case Kind.POISON:
                return self._poison(fault)
            case Kind.CORRUPT:
                return self._flip_a_bit(fault)
            case Kind.DISK_FULL:
                assert isinstance(self._store, LocalDisk)
                self._store.fill(fault.seconds, self._farm.after)
                return True
        assert isinstance(self._store, S3)
        match fault.kind:
            case Kind.S3_KILL:
                return self._store.kill(fault.seconds, self._farm.after)
            case Kind.S3_ERRORS:
                self._store.answer_with_errors(fault.pick)
            case Kind.S3_STALL:
                self._store.stall(fault.pick)
            case Kind.S3_CUT:
                self._store.cut(fault.pick)
            case Kind.S3_LOST_REPLY:
                self._store.lose_replies(fault.pick)
        return True

    def _signal(self, fault: Fault) -> bool:
        candidates = self._farm.members(fault.role)
        if fault.kind is not Kind.KILL:
            candidates = [member for member in candidates if not member.stopped]
        if not candidates:
            return False
        member = candidates[int(fault.pick * len(candidates))]
        member.send(SIGNALS[fault.kind])
        if member.stopped:
            self._farm.after(fault.seconds, lambda: resume(member))
        return True

    def _kill_client(self, fault: Fault) -> bool:
        candidates = [o.process for o in self._clients.running if o.process and o.process.poll() is None]
        if candidates:
            candidates[int(fault.pick * len(candidates))].kill()
        return bool(candidates)

    def _poison(self, fault: Fault) -> bool:
        """One tile that has no film yet kills every tile and isolated worker from now on."""
        tiles = [
            (order, tile.tile_id)
            for order in self._clients.running
            for tile in order.reference.tiles
            if not any(self._farm.store.list(layout.films(order.reference.plan.sample_key, tile.tile_id)))
        ]
        if self._poisoned or not tiles:
            return False
        order, self._farm.poison = tiles[int(fault.pick * len(tiles))]
        self._poisoned = order, time.monotonic() + POISON_SECONDS
        self._replace_renderers()
        return True

    def _cure_if_parked(self) -> None:
        """The operator mends the machines when a frame is parked; its client retries it then."""
        if self._poisoned is None:
            return
        order, until = self._poisoned
        try:
            parked = self._farm.store.stat(layout.dead_letter(order.job_id)) is not None
        except StoreError:
            return
        if parked or order.done or time.monotonic() > until:
            self._cure()

    def _cure(self) -> None:
        self._poisoned = self._farm.poison = None
        self._replace_renderers()

    def _replace_renderers(self) -> None:
        for member in (*self._farm.members("tiles"), *self._farm.members("isolated")):
            member.send(signal.SIGKILL)

    def _flip_a_bit(self, fault: Fault) -> bool:
        """Of a film of a frame that has tiles to render still: what is published already was whole when
        it was, and what the disk does to it afterwards is for `verify` to find."""
        orders = [order for order in self._clients.running if self._unfinished(order)]
        films = [
            (order, blob.key)
            for order in orders
            for blob in self._farm.store.list(layout.films(order.reference.plan.sample_key))
        ]
        if not films:
            return False
        order, key = films[int(fault.pick * len(films))]
        try:
            data, stat = self._farm.store.get(key)
            place = int(fault.pick * len(data))
            flipped = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
            damaged = self._farm.store.swap(key, flipped, stat.version)
            self.damaged.add(key)
            if not self._unfinished(order):  # it may have been read before: too late to be fair
                self._farm.store.swap(key, data, damaged.version)
        except (NotFound, Conflict):  # pruned or replaced meanwhile
            return False
        return True

    def _unfinished(self, order: Order) -> bool:
        """Whether some tile has no last film, so that nothing can be finalizing the frame."""
        films = self._farm.store.list(layout.films(order.reference.plan.sample_key))
        last = sum(layout.film_samples(blob.key) == order.frame.samples for blob in films)
        return last < len(order.reference.tiles)

    def settle(self) -> None:
        """Ends what still lasts: the rest of the run is undisturbed."""
        if isinstance(self._store, S3):
            self._store.proxy.replace_faults([])
            self._store.proxy.gate = None
        if self._poisoned:
            self._cure()
        until = time.monotonic() + 30
        while not self._farm.is_calm and time.monotonic() < until:
            self._farm.tick()
            time.sleep(0.02)


def resume(member: Member) -> None:
    member.send(signal.SIGCONT)
