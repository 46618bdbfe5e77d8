"""A lease in one object of the store: one holder at a time, a fence that rises with every holder.

The object is never deleted, so the fence never starts again. Every change of it is a compare-and-swap, so
of many that want the lease one gets it. Whether it has run out is judged by the store's clock alone: the
object's age against its ttl. The holder trusts its own monotonic clock, started before each request, for
TRUST of the ttl and then stops by itself, so that it has stopped before anybody else can begin. What a
holder that was stopped (SIGSTOP) does afterwards in spite of all is caught by its stale fence.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType

from store.base import Store
from store.errors import AlreadyExists, BlobCorrupt, Conflict, LeaseHeld, LeaseLost, NotFound, StoreError

TRUST = 0.9
"""Share of the ttl for which a holder believes that the lease is its own."""
RENEW = 1 / 3
"""Share of the ttl after which `check` renews."""


Tell = Callable[[str, int], None]
"""Hears what happens to a lease, and its fence: acquired, renewed, unrenewed (the store failed), lost,
released."""


def unheard(event: str, fence: int) -> None:
    """Events that nobody listens to."""


@dataclass(frozen=True)
class LeaseState:
    """What the object says."""

    fence: int
    owner: str
    ttl: float
    free: bool
    nonce: str
    """Makes every write's bytes unique: a swap whose reply was lost is known by it."""

    def encode(self) -> bytes:
        return json.dumps(self.__dict__, sort_keys=True).encode()

    @classmethod
    def decode(cls, key: str, data: bytes) -> LeaseState:
        try:
            raw = json.loads(data)
            fence, owner, ttl = int(raw["fence"]), str(raw["owner"]), float(raw["ttl"])
            return cls(fence, owner, ttl, bool(raw["free"]), str(raw["nonce"]))
        except (ValueError, KeyError, TypeError) as error:
            raise BlobCorrupt(f"{key}: is no lease: {error!r}; remove it when nothing runs") from error


class Lease:
    """A held lease; use it in a `with` block, which releases it. Made by `acquire`."""

    def __init__(
        self, store: Store, key: str, clock: Callable[[], float], state: LeaseState, tell: Tell
    ) -> None:
        self._store, self._key, self._clock, self._state = store, key, clock, state
        self._began, self._version, self._tell = clock(), "", tell

    def create(self) -> Lease:
        """The first holder ever. Raises AlreadyExists."""
        self._version = self._store.put_new(self._key, self._state.encode()).version
        self._tell("acquired", self.fence)
        return self

    def take_over(self, version: str) -> Lease:
        """From the holder whose object has this version. Raises LeaseLost where another was faster."""
        self._version = version
        self._write(self._state)
        self._tell("acquired", self.fence)
        return self

    @property
    def fence(self) -> int:
        return self._state.fence

    def check(self) -> None:
        """To be called between pieces of work: renews when a third of the ttl has passed.

        Raises LeaseLost when it is another's, or when so much time has passed that it may be.
        """
        ttl = self._state.ttl
        if self._age() < RENEW * ttl:
            return
        try:
            if self._age() < TRUST * ttl:
                self._write(_fresh(self._state))
            # After the renewal too: it may have taken so long that its own time is over.
            if self._age() >= TRUST * ttl:
                raise LeaseLost(f"{self._key}: held for {self._age():.1f} s without renewal, of {ttl:g} s")
        except StoreError as error:
            self._tell("lost" if isinstance(error, LeaseLost) else "unrenewed", self.fence)
            raise
        self._tell("renewed", self.fence)

    def release(self) -> None:
        """Frees it for the next one at once. What is another's by now stays another's."""
        with suppress(LeaseLost):
            self.free()

    def free(self) -> None:
        """`release` that raises LeaseLost where the lease is another's."""
        try:
            self._write(_fresh(self._state, free=True))
        except LeaseLost:
            self._tell("lost", self.fence)
            raise
        self._tell("released", self.fence)

    def _age(self) -> float:
        return self._clock() - self._began

    def _write(self, state: LeaseState) -> None:
        began = self._clock()
        try:
            self._version = self._store.swap(self._key, state.encode(), self._version).version
        except (Conflict, NotFound) as error:
            self._version = self._resolve(state, error)
        self._state, self._began = state, began

    def _resolve(self, state: LeaseState, error: Exception) -> str:
        """The version, if the object is this very write after all: only its reply was lost."""
        try:
            data, found = self._store.get(self._key)
        except NotFound:
            raise LeaseLost(f"{self._key}: its object is gone") from error
        if data != state.encode():
            now = LeaseState.decode(self._key, data)
            raise LeaseLost(f"{self._key}: taken over by {now.owner} with fence {now.fence}") from error
        return found.version

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raises LeaseLost where the work failed and the lease is another's by now: whatever an attempt that
        was overtaken ran into (a timeout, a cancel, a connection that is gone), that is what there is to say.
        """
        try:
            self.free()
        except LeaseLost:
            if error is not None:
                raise
        except StoreError:
            return  # what came of the work counts: a lease that cannot be freed runs out by itself


def acquire(
    store: Store,
    key: str,
    owner: str,
    ttl: float,
    clock: Callable[[], float] = time.monotonic,
    *,
    tell: Tell = unheard,
) -> Lease:
    """Takes the lease for `ttl` seconds (10 or more: a store's clock may have a grain of a second).

    owner: a token that no two attempts share. Raises LeaseHeld, naming the holder, and the store's errors.
    """
    try:
        data, found = store.get(key)
    except NotFound:
        try:
            return Lease(store, key, clock, _new(1, owner, ttl), tell).create()
        except AlreadyExists:
            raise LeaseHeld(f"{key}: another attempt was faster") from None
    held = LeaseState.decode(key, data)
    age = store.now() - found.modified
    if not held.free and held.owner != owner and age < timedelta(seconds=held.ttl):
        left = held.ttl - age.total_seconds()
        raise LeaseHeld(f"{key}: held by {held.owner} with fence {held.fence} for {left:.0f} s more")
    try:
        return Lease(store, key, clock, _new(held.fence + 1, owner, ttl), tell).take_over(found.version)
    except LeaseLost as error:
        raise LeaseHeld(f"{key}: another attempt was faster") from error


def _new(fence: int, owner: str, ttl: float) -> LeaseState:
    return LeaseState(fence, owner, ttl, False, uuid.uuid4().hex)


def _fresh(state: LeaseState, free: bool = False) -> LeaseState:
    return LeaseState(state.fence, state.owner, state.ttl, free, uuid.uuid4().hex)
