"""Checkpoints: the newest valid one is found, damage costs one checkpoint, and nothing is overwritten."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from store import BlobStat, Nondeterministic, NotFound, Store, StoreUnavailable, layout
from store.films import newest_film, put_film, set_aside

KEY, TILE = "5a" * 32, "x0000y0000w0064h0064"


def encode(samples: int, film: str = "film") -> bytes:
    body = f"{samples} {film}"
    return f"{hashlib.sha256(body.encode()).hexdigest()} {body}".encode()


def decode(data: bytes) -> tuple[str, int]:
    digest, _, body = data.decode().partition(" ")
    if hashlib.sha256(body.encode()).hexdigest() != digest:
        raise ValueError("damaged")
    samples, _, film = body.partition(" ")
    return film, int(samples)


def put(store: Store, *counts: int) -> None:
    for samples in counts:
        put_film(store, KEY, TILE, samples, encode(samples, f"film of {samples}"), decode)


def damage(store: Store, samples: int, data: bytes = b"not a film") -> str:
    key = layout.film(KEY, TILE, samples)
    found = store.stat(key)
    if found is None:
        store.put_new(key, data)
    else:
        store.swap(key, data, found.version)
    return key


def counts(store: Store) -> list[int | None]:
    return [layout.film_samples(blob.key) for blob in store.list(layout.films(KEY, TILE))]


def test_the_newest_at_or_below_the_target(store: Store) -> None:
    put(store, 4, 16, 64)
    for target, expected in ((100, 64), (64, 64), (63, 16), (16, 16), (5, 4)):
        assert newest_film(store, KEY, TILE, target, decode) == (f"film of {expected}", expected, ())
    assert newest_film(store, KEY, TILE, 3, decode) == (None, 0, ())
    assert newest_film(store, KEY, "x0064y0000w0064h0064", 64, decode) == (None, 0, ())


def test_a_damaged_film_is_set_aside_and_the_one_before_it_used(store: Store) -> None:
    put(store, 4, 16, 64)
    bad = damage(store, 64)
    found = newest_film(store, KEY, TILE, 64, decode)
    assert found == ("film of 16", 16, (bad,))
    assert counts(store) == [4, 16]
    (kept,) = store.list("set-aside/")
    assert store.get(kept.key)[0] == b"not a film"
    assert bad in kept.key
    assert newest_film(store, KEY, TILE, 64, decode) == ("film of 16", 16, ())


def test_a_film_of_other_samples_than_its_name_says_is_damage(store: Store) -> None:
    put(store, 4)
    bad = damage(store, 64, encode(63))
    assert newest_film(store, KEY, TILE, 64, decode) == ("film of 4", 4, (bad,))


def test_all_damaged_is_a_fresh_start(store: Store) -> None:
    bad = [damage(store, samples) for samples in (16, 4)]
    assert newest_film(store, KEY, TILE, 64, decode) == (None, 0, tuple(bad))


def test_an_error_that_is_no_damage_leaves_the_film(store: Store) -> None:
    put(store, 4)

    def no_memory(data: bytes) -> tuple[str, int]:
        raise MemoryError

    with pytest.raises(MemoryError):
        newest_film(store, KEY, TILE, 4, no_memory)
    assert counts(store) == [4]


def test_a_film_that_vanishes_after_the_listing_is_passed_over(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, 4, 16)
    get = store.get

    def get_without_16(key: str) -> tuple[bytes, BlobStat]:
        if key == layout.film(KEY, TILE, 16):
            raise NotFound(key)
        return get(key)

    monkeypatch.setattr(store, "get", get_without_16)
    assert newest_film(store, KEY, TILE, 64, decode).samples == 4


def test_the_same_film_twice_is_success_and_another_is_not(store: Store) -> None:
    put(store, 16)
    put(store, 16)
    with pytest.raises(Nondeterministic, match=r"00000016\.film"):
        put_film(store, KEY, TILE, 16, encode(16, "other"), decode)
    assert newest_film(store, KEY, TILE, 16, decode).film == "film of 16"
    assert list(store.list("set-aside/")) == []


def test_a_damaged_film_is_replaced_by_a_good_one(store: Store) -> None:
    damage(store, 16)
    put(store, 16)
    assert newest_film(store, KEY, TILE, 16, decode) == ("film of 16", 16, ())
    assert len(list(store.list("set-aside/"))) == 1
    damage(store, 16)  # the same damage once more
    put(store, 16)
    assert len(list(store.list("set-aside/"))) == 1


def test_a_film_that_is_never_to_be_seen_is_unavailable(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, 16)

    def gone(key: str) -> tuple[bytes, BlobStat]:
        raise NotFound(key)

    monkeypatch.setattr(store, "get", gone)
    with pytest.raises(StoreUnavailable):
        put(store, 16)


def test_setting_aside_spares_what_has_been_put_in_its_place(store: Store) -> None:
    key = damage(store, 16)
    seen = store.stat(key)
    assert seen is not None
    store.delete(key)
    put(store, 16)
    set_aside(store, key, seen.version)
    assert counts(store) == [16]
    set_aside(store, layout.film(KEY, TILE, 99))  # absent: nothing to do


def test_films_of_other_tiles_stay(store: Store, tmp_path: Path) -> None:
    other = "x0064y0000w0064h0064"
    put(store, 1, 2, 3)
    assert put_film(store, KEY, other, 1, encode(1), decode)
    assert not put_film(store, KEY, other, 1, encode(1), decode)  # there already
    set_aside(store, layout.film(KEY, TILE, 3))
    assert newest_film(store, KEY, other, 1, decode).samples == 1
