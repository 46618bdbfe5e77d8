"""Many processes at one key: exactly one of them wins, every time."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from typing import Any

from store import AlreadyExists, Conflict, NotFound, Store, open_store

SPAWN = multiprocessing.get_context("spawn")
PROCESSES = 5
ROUNDS = 40
S3_ROUNDS = 6
"""Conditional writes that are fought over take a server long."""
PATIENCE = 120.0

Racer = Callable[[Store, int, Barrier, int], list[Any]]


def test_one_creator_wins(store_url: str, store: Store) -> None:
    results = race(store_url, create_in_rounds)
    for number in range(rounds_on(store_url)):
        winners = [who for who, won in enumerate(results) if number in won]
        assert len(winners) == 1
        assert store.get(f"race/{number}")[0] == b"%d" % winners[0] * 10_000


def create_in_rounds(store: Store, who: int, together: Barrier, rounds: int) -> list[Any]:
    won = []
    for number in range(rounds):
        together.wait(PATIENCE)
        try:
            store.put_new(f"race/{number}", b"%d" % who * 10_000)
            won.append(number)
        except AlreadyExists:
            assert store.stat(f"race/{number}") is not None
    return won


def test_no_swap_is_lost_and_no_version_comes_twice(store_url: str, store: Store) -> None:
    versions = [store.put_new("counter", b"0").version]
    for result in race(store_url, count_up):
        versions += result
    swaps = PROCESSES * rounds_on(store_url)
    assert store.get("counter")[0] == b"%d" % swaps
    assert len(versions) == len(set(versions)) == swaps + 1


def count_up(store: Store, who: int, together: Barrier, rounds: int) -> list[Any]:
    versions: list[Any] = []
    together.wait(PATIENCE)
    while len(versions) < rounds:
        data, seen = store.get("counter")
        try:
            versions.append(store.swap("counter", b"%d" % (int(data) + 1), seen.version).version)
        except Conflict:
            continue
    return versions


def test_a_swap_or_a_delete_of_one_version_happens_and_not_both(store_url: str, store: Store) -> None:
    rounds = rounds_on(store_url)
    for number in range(rounds):
        store.put_new(f"fought/{number}", b"start")
    results = race(store_url, swap_or_delete)
    for number in range(rounds):
        swapped = [who for who, done in enumerate(results) if (number, "swapped") in done]
        deleted = [who for who, done in enumerate(results) if (number, "deleted") in done]
        assert len(swapped) == (0 if deleted else 1)
        assert (store.stat(f"fought/{number}") is None) == bool(deleted)


def swap_or_delete(store: Store, who: int, together: Barrier, rounds: int) -> list[Any]:
    done = []
    for number in range(rounds):
        key = f"fought/{number}"
        version = store.get(key)[1].version
        together.wait(PATIENCE)
        with suppress(Conflict, NotFound):
            if who % 2:
                store.delete(key, version)  # success also where another one deleted it
                done.append((number, "deleted"))
            else:
                store.swap(key, b"swapped", version)
                done.append((number, "swapped"))
    return done


def rounds_on(store_url: str) -> int:
    return S3_ROUNDS if store_url.startswith("s3:") else ROUNDS


def race(store_url: str, racer: Racer) -> list[list[Any]]:
    """Runs racer in PROCESSES processes at once, each with a store of its own; their results in order."""
    together = SPAWN.Barrier(PROCESSES)
    pipes, processes = [], []
    for who in range(PROCESSES):
        receiver, sender = SPAWN.Pipe(duplex=False)
        process = SPAWN.Process(target=_run, args=(store_url, racer, who, together, sender), daemon=True)
        process.start()
        sender.close()
        pipes.append(receiver)
        processes.append(process)
    try:
        return [pipe.recv() for pipe in pipes]
    finally:
        for process in processes:
            process.terminate()
            process.join()


def _run(store_url: str, racer: Racer, who: int, together: Barrier, sender: Connection) -> None:
    sender.send(racer(open_store(store_url), who, together, rounds_on(store_url)))
