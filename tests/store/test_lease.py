"""The lease: one holder, a fence that rises, and nobody who holds it by mistake."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from store import Conflict, LeaseHeld, LeaseLost, StoreUnavailable
from store.base import Store
from store.lease import Lease, acquire

KEY = "leases/job.json"
LONG = 1000.0


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_one_holder_at_a_time_and_the_next_one_after_release(store: Store) -> None:
    with acquire(store, KEY, "a", LONG) as held:
        assert held.fence == 1
        with pytest.raises(LeaseHeld, match="held by a with fence 1"):
            acquire(store, KEY, "b", LONG)
    with acquire(store, KEY, "b", LONG) as held:
        assert held.fence == 2
    assert acquire(store, KEY, "c", LONG).fence == 3


def test_it_is_released_by_an_error_too(store: Store) -> None:
    with pytest.raises(ZeroDivisionError), acquire(store, KEY, "a", LONG):
        raise ZeroDivisionError
    assert acquire(store, KEY, "b", LONG).fence == 2


def test_a_lease_that_ran_out_is_taken_over_and_its_holder_learns_it(store: Store) -> None:
    clock = Clock()  # stands still: the old holder trusts itself, as one that was stopped would
    old = acquire(store, KEY, "a", 0.2, clock)
    new = taken(store, "b")
    assert new.fence == 2
    clock.now = 0.1
    with pytest.raises(LeaseLost, match="taken over by b with fence 2"):
        old.check()
    old.release()  # must not free what is another's
    with pytest.raises(LeaseHeld):
        acquire(store, KEY, "c", LONG)


def taken(store: Store, owner: str) -> Lease:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            return acquire(store, KEY, owner, LONG)
        except LeaseHeld:
            continue
    raise AssertionError("the lease never ran out")


def test_checks_renew_and_a_holder_stops_trusting_itself_before_the_end(store: Store) -> None:
    clock = Clock()
    lease = acquire(store, KEY, "a", 9.0, clock)
    before = store.get(KEY)
    clock.now = 2.9
    lease.check()
    assert store.get(KEY) == before  # not yet worth a write
    clock.now = 3.1
    lease.check()
    assert store.get(KEY)[0] != before[0]
    clock.now += 8.0
    lease.check()  # renewed at 3.1, so this is within its time
    clock.now += 8.2
    with pytest.raises(LeaseLost):
        lease.check()


class LostReply:
    """A store whose next swap arrives but is answered by an error, or late."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.error: Exception | None = None
        self.answered: Callable[[], object] = bool

    def swap(self, key: str, data: bytes | Path, expected: str) -> Any:
        stat = self._store.swap(key, data, expected)
        self.answered()
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        return stat

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def test_a_renewal_whose_reply_was_lost_is_known_as_ours(store: Store) -> None:
    flaky, clock = LostReply(store), Clock()
    lease = acquire(flaky, KEY, "a", 9.0, clock)
    flaky.error = Conflict("412 after our own write")
    clock.now = 4.0
    lease.check()
    clock.now = 8.0
    lease.check()
    assert lease.fence == 1


def test_a_takeover_whose_reply_was_lost_is_known_as_ours(store: Store) -> None:
    acquire(store, KEY, "a", LONG).release()
    flaky = LostReply(store)
    flaky.error = Conflict("412 after our own write")
    assert acquire(flaky, KEY, "b", LONG).fence == 2


def test_errors_of_the_store_pass(store: Store) -> None:
    flaky, clock = LostReply(store), Clock()
    lease = acquire(flaky, KEY, "a", 9.0, clock)
    flaky.error = StoreUnavailable("away")
    clock.now = 4.0
    with pytest.raises(StoreUnavailable):
        lease.check()


def test_a_renewal_that_took_longer_than_its_own_time_is_no_hold(store: Store) -> None:
    slow, clock = LostReply(store), Clock()
    lease = acquire(slow, KEY, "a", 9.0, clock)
    clock.now = 4.0
    slow.answered = lambda: setattr(clock, "now", 13.0)
    with pytest.raises(LeaseLost, match=r"held for 9\.0 s without renewal"):
        lease.check()


def test_what_came_of_the_work_counts_though_the_lease_cannot_be_freed(store: Store) -> None:
    flaky = LostReply(store)
    with acquire(flaky, KEY, "a", LONG):
        flaky.error = StoreUnavailable("away")
    with pytest.raises(ZeroDivisionError), acquire(flaky, KEY, "b", LONG):
        flaky.error = StoreUnavailable("away")
        raise ZeroDivisionError


class Stopped(BaseException):
    """As a cancel is."""


@pytest.mark.parametrize("error", [TimeoutError, Stopped, StoreUnavailable])
def test_work_that_failed_after_it_was_overtaken_says_that(store: Store, error: type[BaseException]) -> None:
    with (
        pytest.raises(LeaseLost, match="taken over by b with fence 2"),
        acquire(store, KEY, "a", 0.2, Clock()),
    ):
        taken(store, "b")
        raise error


def test_work_that_was_done_stays_done_though_it_was_overtaken(store: Store) -> None:
    with acquire(store, KEY, "a", 0.2, Clock()):
        new = taken(store, "b")
    new.check()


def test_what_happens_to_a_lease_is_told(store: Store) -> None:
    """For logs and metrics: a farm whose leases are lost again and again has to see it."""
    told: list[tuple[str, int]] = []

    def tell(event: str, fence: int) -> None:
        told.append((event, fence))

    now = 0.0
    acquire(store, KEY, "before", LONG).release()
    lease = acquire(store, KEY, "a", 9.0, lambda: now, tell=tell)
    lease.check()
    now = 4.0
    lease.check()
    lease.release()
    assert told == [("acquired", 2), ("renewed", 2), ("released", 2)]

    told.clear()
    lease = acquire(store, KEY, "b", 9.0, lambda: now, tell=tell)
    now = 40.0
    with pytest.raises(LeaseLost):
        lease.check()
    assert told == [("acquired", 3), ("lost", 3)]
