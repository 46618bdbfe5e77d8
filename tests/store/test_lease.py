"""The lease: one holder, a fence that rises, and nobody who holds it by mistake."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from store import Conflict, LeaseHeld, LeaseLost, LocalStore, StoreUnavailable
from store.base import Store
from store.lease import Lease, acquire

KEY = "leases/job.json"
WITNESS = "witness.json"
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
    """A store whose next swap arrives but is answered by an error."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.error: Exception | None = None

    def swap(self, key: str, data: bytes | Path, expected: str) -> Any:
        stat = self._store.swap(key, data, expected)
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


def contend(root: str, log: str, name: int) -> None:
    """Takes the lease again and again and counts up a witness, which refuses a fence that is not newer:
    that is how a holder is caught that was stopped between its last check and its write."""
    store, chance = LocalStore(Path(root)), random.Random(name)
    for turn in itertools.count():
        try:
            lease = acquire(store, KEY, f"{os.getpid()}.{turn}", 1.0)
            for _ in range(chance.randrange(20)):
                lease.check()
            data, found = store.get(WITNESS)
            value, fence = json.loads(data)
            if fence < lease.fence:
                store.swap(WITNESS, json.dumps([value + 1, lease.fence]).encode(), found.version)
                with open(log, "a") as file:
                    file.write(json.dumps([value + 1, lease.fence]) + "\n")
            lease.release()
        except (LeaseHeld, LeaseLost, Conflict):
            continue


def test_kills_and_stops_never_make_two_holders(tmp_path: Path) -> None:
    """Hand-overs under SIGKILL and SIGSTOP: no fence twice, and each holder saw the one before it."""
    root, log = str(tmp_path / "store"), str(tmp_path / "log")
    LocalStore(Path(root)).put_new(WITNESS, b"[0, 0]")
    spawn, chance = multiprocessing.get_context("spawn"), random.Random(5)

    def start(name: int) -> Any:
        process = spawn.Process(target=contend, args=(root, log, name))
        process.start()
        return process

    workers = [start(name) for name in range(4)]
    try:
        for number in range(12):
            seen = lines(log)
            wait_until(lambda seen=seen: lines(log) > seen + 5)
            victim = chance.randrange(4)
            if number % 3 == 0:
                os.kill(workers[victim].pid, signal.SIGSTOP)
                # Past its lease, as a rule; a process that is stopped inside a local swap blocks the key.
                wait_until(lambda seen=seen: lines(log) > seen + 10, patience=3.0, needed=False)
                os.kill(workers[victim].pid, signal.SIGCONT)
            else:
                workers[victim].kill()
                workers[victim].join()
                workers[victim] = start(100 + number)
    finally:
        for worker in workers:
            worker.kill()
            worker.join()
    counted = sorted(json.loads(line) for line in Path(log).read_text().splitlines())
    values, fences = [value for value, _ in counted], [fence for _, fence in counted]
    assert len(counted) >= 12 * 6
    assert len(set(values)) == len(values)  # nobody counted from an old value
    assert fences == sorted(set(fences))


def lines(log: str) -> int:
    try:
        return Path(log).read_text().count("\n")
    except FileNotFoundError:
        return 0


def wait_until(condition: Any, patience: float = 60.0, needed: bool = True) -> None:
    end = time.monotonic() + patience
    while not condition():
        if time.monotonic() > end:
            assert not needed, "nothing moves any more"
            return
        time.sleep(0.01)


def test_what_happens_to_a_lease_is_told(tmp_path: Path) -> None:
    """For logs and metrics: a farm whose leases are lost again and again has to see it."""
    told: list[tuple[str, int]] = []

    def tell(event: str, fence: int) -> None:
        told.append((event, fence))

    store, now = LocalStore(tmp_path), 0.0
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
