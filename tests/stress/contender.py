"""A process that takes leases again and again, and tells the witness what it does."""

from __future__ import annotations

import json
import os
import random
import time
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Any, NamedTuple

from store import BlobStat, LeaseHeld, LeaseLost, Store, StoreError, StoreUnavailable, open_store
from store.lease import acquire
from tests.stress.witness import Act, Begin, End, Message, Note


class Pace(NamedTuple):
    """How the contenders of one back end behave; seconds."""

    ttl: float
    grain: float
    """Of the store's clock: so much earlier than promised may a lease look as if it had run out."""
    pause: float
    """At most so long between two tries."""
    work: float
    """At most so long between two acts of a holder."""
    long_share: float
    """Of the holders, those that work for longer than the ttl and so depend on renewals."""


PACES = {
    "local": Pace(ttl=1.0, grain=0.0, pause=0.02, work=0.002, long_share=0.02),
    "s3": Pace(ttl=10.0, grain=1.0, pause=0.2, work=0.01, long_share=0.01),
}


class Refused(Exception):
    """The witness has seen a newer fence."""


class Observed:
    """A store that remembers the last content that was read and how the last swap changed it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.read: tuple[bytes, BlobStat] | None = None
        self.written: BlobStat | None = None
        self.swaps = 0

    def get(self, key: str) -> tuple[bytes, BlobStat]:
        self.read = self._store.get(key)
        return self.read

    def swap(self, key: str, data: bytes | Path, expected: str) -> BlobStat:
        self.written = self._store.swap(key, data, expected)
        self.swaps += 1
        return self.written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def take_over(self) -> tuple[bool, float]:
        """(the lease was free, seconds since it was last written) when it was taken over just now."""
        if self.read is None or self.written is None:
            return True, 0.0
        data, before = self.read
        return bool(json.loads(data)["free"]), (self.written.modified - before.modified).total_seconds()


class Contender:
    def __init__(self, url: str, keys: list[str], pace: Pace, witness: Connection, seed: int) -> None:
        self._store = Observed(open_store(url))
        self._keys, self._pace, self._witness = keys, pace, witness
        self._chance = random.Random(seed)

    def _tell(self, message: Message) -> None:
        self._witness.send(message)
        if not self._witness.recv():
            raise Refused

    def hold(self, key: str, owner: str) -> None:
        """One turn as a holder. Every act follows a check, as the lease asks of its holders."""
        pace, chance, store = self._pace, self._chance, self._store
        asked = time.monotonic()
        with acquire(store, key, owner, pace.ttl) as lease:
            free, waited = store.take_over()
            until = asked + pace.ttl - pace.grain
            lease.check()
            self._tell(Begin(key, lease.fence, os.getpid(), until, free, waited))
            long = chance.random() < pace.long_share
            last = time.monotonic() + (1.2 * pace.ttl if long else chance.uniform(0, 10 * pace.work))
            while time.monotonic() < last:
                time.sleep(chance.uniform(0, pace.work))
                asked, swaps = time.monotonic(), store.swaps
                lease.check()
                if store.swaps > swaps:
                    until = asked + pace.ttl - pace.grain
                    self._tell(Note("renewals"))
                self._tell(Act(key, lease.fence, asked, until))
            self._tell(End(key, lease.fence))

    def turn(self, number: int) -> None:
        key = self._chance.choice(self._keys)
        try:
            self.hold(key, f"{os.getpid()}.{number}")
        except LeaseHeld:
            pass  # the usual case
        except Refused:
            self._tell(Note("holders stopped by the witness"))
        except LeaseLost:
            self._tell(Note("holders that found out themselves"))
        except StoreUnavailable as error:
            self._tell(Note("locked" if "locked" in str(error) else "store unavailable"))
        except StoreError as error:
            self._tell(Note(f"unexpected: {error!r}"))
        time.sleep(self._chance.uniform(0, self._pace.pause))


def contend(url: str, keys: list[str], pace: Pace, address: str, seed: int) -> None:
    """Runs until it is killed."""
    with Client(address) as witness:
        contender, number = Contender(url, keys, pace, witness, seed), 0
        while True:
            contender.turn(number)
            number += 1
