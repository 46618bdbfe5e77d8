"""Named points, reached from outside: what appears in the store tells that a worker is there, and it is
signalled at once. All workers of the role are, since the store does not say whose work it was."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterable

from store import LocalStore, NotFound, StoreError, layout
from store.local import OWN_FOLDER
from tests.chaos.clients import Clients
from tests.chaos.disturbed_store import S3, Disturbed
from tests.chaos.farm import ChaosFarm
from tests.chaos.schedule import Fault, Kind

PATIENCE = 60.0
"""A point that is not met so long is given up and counted as not reached."""
RENEWAL_SECONDS = 6.0
"""A finalizer stopped so long after it took its lease (a third of 15 s is less, the heartbeat timeout more)
renews it as soon as it goes on."""


class Armed:
    """A fault that waits for its point. `look` says whether it was met, and then it is done."""

    def __init__(self, fault: Fault, look: Callable[[], bool]) -> None:
        self.fault, self._look = fault, look
        self._until = time.monotonic() + PATIENCE

    @property
    def is_late(self) -> bool:
        return time.monotonic() > self._until

    def look(self) -> bool:
        try:
            return self._look()
        except StoreError:  # the store is disturbed by another fault
            return False


class Points:
    def __init__(self, farm: ChaosFarm, store: Disturbed, clients: Clients) -> None:
        self._farm, self._store, self._clients = farm, store, clients

    def arm(self, fault: Fault) -> Armed:
        if fault.kind is Kind.WRITING_FILM:
            return Armed(fault, self._in_film_write(fault))
        if fault.kind is Kind.RENEWING:
            return Armed(fault, self._renewal(fault))
        return Armed(fault, self._appearance(fault))

    def strike(self, fault: Fault, pids: Iterable[int] | None = None) -> None:
        """Kills, or stops past the heartbeat timeout, tile and isolated workers, or those with these pids."""
        for member in (*self._farm.members("tiles"), *self._farm.members("isolated")):
            if pids is not None and member.process.pid not in pids:
                continue
            member.send(signal.SIGSTOP if fault.freeze else signal.SIGKILL)
            if fault.freeze:
                self._farm.after(12 + fault.seconds, lambda member=member: member.send(signal.SIGCONT))  # type: ignore[misc]

    # --- how each is met --------------------------------------------------------------------------

    def _keys(self, kind: Kind) -> set[str]:
        """The keys one of which is new when the point is met."""
        if kind is Kind.UNPUBLISHED:
            return self._listed(f"images/{order.job_id}/" for order in self._clients.running)
        if kind is Kind.PUBLISHED:
            return self._listed(layout.manifest(order.job_id) for order in self._clients.running)
        found = set()
        for order in self._clients.running:
            for key in self._listed([layout.films(order.reference.plan.sample_key)]):
                last = layout.film_samples(key) == order.frame.samples
                if last == (kind is Kind.UNREPORTED):
                    found.add(key)
        return found

    def _listed(self, prefixes: Iterable[str]) -> set[str]:
        return {blob.key for prefix in prefixes for blob in self._farm.store.list(prefix)}

    def _appearance(self, fault: Fault) -> Callable[[], bool]:
        seen: set[str] | None = None

        def look() -> bool:
            nonlocal seen
            keys = self._keys(fault.kind)
            if seen is None or keys <= seen:
                seen = keys if seen is None else seen | keys
                return False
            self.strike(fault)
            return True

        return look

    def _in_film_write(self, fault: Fault) -> Callable[[], bool]:
        if isinstance(self._store, S3):
            gate = self._store.hold_film_write()

            def held() -> bool:
                if gate.reached.is_set():
                    self.strike(fault)
                    gate.opened.set()
                return gate.reached.is_set()

            return held
        assert isinstance(self._farm.store, LocalStore)
        folder = self._farm.store.root / OWN_FOLDER / "tmp"

        def half_written() -> bool:
            writers = {int(path.name.split("-")[1]) for path in folder.iterdir()}
            writers &= {m.process.pid for m in self._farm.members("tiles")}
            if writers:
                self.strike(fault, writers)
            return bool(writers)

        return half_written

    def _renewal(self, fault: Fault) -> Callable[[], bool]:
        """First stops the holder of a lease until it has to renew it, then waits for that."""
        held: dict[str, str] = {}  # key of the lease, version when its holder was stopped

        def look() -> bool:
            for key in held or {layout.lease(order.job_id) for order in self._clients.running}:
                try:
                    data, stat = self._farm.store.get(key)
                except NotFound:
                    continue
                if json.loads(data)["free"]:
                    continue
                if not held:
                    held[key] = stat.version
                    for member in self._farm.members("tiles"):
                        member.send(signal.SIGSTOP)
                        self._farm.after(RENEWAL_SECONDS, lambda m=member: m.send(signal.SIGCONT))  # type: ignore[misc]
                    return False
                if stat.version != held[key]:
                    self.strike(fault)
                    return True
            return False

        return look
