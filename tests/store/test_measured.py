"""The measuring store: the same answers, and every operation told with its result and its time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from store import AlreadyExists, Conflict, LocalStore, NotFound, StoreUnavailable
from store.base import BlobStat, Progress, Store, silent
from store.measured import MeasuredStore

Told = list[tuple[str, str]]


@pytest.fixture
def told() -> Told:
    return []


@pytest.fixture
def store(tmp_path: Path, told: Told) -> Store:
    def observe(operation: str, result: str, seconds: float) -> None:
        assert 0 <= seconds < 60
        told.append((operation, result))

    return MeasuredStore(LocalStore(tmp_path / "store"), observe)


def test_every_operation_is_told_and_answers_as_before(store: Store, told: Told) -> None:
    first = store.put_new("a/b", b"1")
    assert store.swap("a/b", b"22", first.version).size == 2
    assert store.get("a/b")[0] == b"22"
    with store.open("a/b") as stream:
        assert stream.read() == b"22"
    assert store.stat("nothing") is None
    assert [blob.key for blob in store.list("a/")] == ["a/b"]
    assert store.now().tzinfo is not None
    store.delete("a/b")
    names = ["put_new", "swap", "get", "open", "stat", "list", "now", "delete"]
    assert told == [(name, "ok") for name in names]


def test_answers_that_are_no_faults_are_told_apart(store: Store, told: Told) -> None:
    store.put_new("a", b"1")
    cases: list[tuple[type[Exception], Callable[[], object]]] = [
        (AlreadyExists, lambda: store.put_new("a", b"2")),
        (Conflict, lambda: store.swap("a", b"2", "another version")),
        (NotFound, lambda: store.get("b")),
    ]
    for error, call in cases:
        with pytest.raises(error):
            call()
    assert told[1:] == [("put_new", "already_exists"), ("swap", "conflict"), ("get", "not_found")]


def test_a_store_that_is_away_is_told_also_in_the_middle_of_a_list(tmp_path: Path, told: Told) -> None:
    class Away(LocalStore):
        def put_new(self, key: str, data: bytes | Path, progress: Progress = silent) -> BlobStat:
            raise StoreUnavailable("away")

        def list(self, prefix: str) -> Iterator[BlobStat]:
            yield from ()
            raise StoreUnavailable("away")

    store = MeasuredStore(Away(tmp_path), lambda operation, result, _: told.append((operation, result)))
    with pytest.raises(StoreUnavailable):
        store.put_new("a", b"")
    with pytest.raises(StoreUnavailable):
        list(store.list(""))
    assert told == [("put_new", "unavailable"), ("list", "unavailable")]


def test_a_list_that_is_left_early_is_told_once(store: Store, told: Told) -> None:
    for number in range(3):
        store.put_new(f"a/{number}", b"")
    told.clear()
    listing = store.list("a/")
    next(iter(listing))
    listing.close()  # type: ignore[attr-defined]
    assert told == [("list", "ok")]


def test_a_list_takes_what_the_store_takes_and_not_its_caller(tmp_path: Path) -> None:
    now, spent = 0.0, list[float]()

    class Slow(LocalStore):
        def list(self, prefix: str) -> Iterator[BlobStat]:
            nonlocal now
            for blob in super().list(prefix):
                now += 1.0
                yield blob

    def observe(operation: str, result: str, seconds: float) -> None:
        spent.append(seconds)

    store = MeasuredStore(Slow(tmp_path), observe, lambda: now)
    for number in range(3):
        store.put_new(f"a/{number}", b"")
    for _ in store.list("a/"):
        now += 100.0
    assert spent == [0.0, 0.0, 0.0, 3.0]


def test_a_write_that_its_caller_stops_is_no_fault(store: Store, told: Told, tmp_path: Path) -> None:
    class Stop(BaseException):
        """As an attempt that has to end."""

    def progress(step: str) -> None:
        raise Stop

    (tmp_path / "picture").write_bytes(b"1" * 100)
    with pytest.raises(Stop):
        store.put_new("a", tmp_path / "picture", progress)
    assert told == [("put_new", "stopped")]
