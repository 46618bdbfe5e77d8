"""The checkpoints of a tile: which one to go on from, and how a new one is written.

`decode` is the tracer's: it takes the bytes of a film and returns (film, samples in it). It raises
ValueError for bytes that are damaged, cut off or of another tile, and nothing but ValueError may mean
that: any other error (no memory, a defect) leaves the stored film where it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, NamedTuple, TypeVar

from store import layout
from store.base import Store
from store.errors import AlreadyExists, Conflict, Nondeterministic, NotFound, StoreUnavailable

Film = TypeVar("Film")
Decode = Callable[[bytes], tuple[Film, int]]

PUT_TRIES = 5


class FoundFilm(NamedTuple, Generic[Film]):
    film: Film | None
    """None where the tile has no valid film."""
    samples: int
    set_aside: tuple[str, ...]
    """Keys of damaged films that were met on the way: for the caller to tell."""


def newest_film(
    store: Store, sample_key: str, tile_id: str, at_or_below: int, decode: Decode[Film]
) -> FoundFilm[Film]:
    """The valid film with the most samples, at most `at_or_below`. Damaged ones are set aside."""
    counts = {layout.film_samples(blob.key) for blob in store.list(layout.films(sample_key, tile_id))}
    damaged: list[str] = []
    for samples in sorted((n for n in counts if n is not None and n <= at_or_below), reverse=True):
        key = layout.film(sample_key, tile_id, samples)
        try:
            data, found = store.get(key)
        except NotFound:  # pruned or set aside since it was listed
            continue
        film = _decoded(data, samples, decode)
        if film is not None:
            return FoundFilm(film, samples, tuple(damaged))
        set_aside(store, key, found.version)
        damaged.append(key)
    return FoundFilm(None, 0, tuple(damaged))


def put_film(  # noqa: PLR0917 - the first four are the film's name
    store: Store, sample_key: str, tile_id: str, samples: int, data: bytes, decode: Decode[Film]
) -> bool:
    """Writes a checkpoint; says whether it was new. Equal bytes that are there already are success; a
    damaged film under the name is set aside and replaced. Raises Nondeterministic where a valid film with
    other bytes is there."""
    key = layout.film(sample_key, tile_id, samples)
    for _ in range(PUT_TRIES):
        try:
            store.put_new(key, data)
            return True
        except AlreadyExists:
            pass
        try:
            stored, found = store.get(key)
        except NotFound:  # set aside by another attempt since the put
            continue
        if stored == data:
            return False
        if _decoded(stored, samples, decode) is not None:
            raise Nondeterministic(
                f"{key} is there with other bytes (sha256 {_sha256(stored)[:16]}, now {_sha256(data)[:16]}): "
                "two renders of the same samples differ; compare the workers' processors and library versions"
            )
        set_aside(store, key, found.version)
    raise StoreUnavailable(f"{key} was taken away {PUT_TRIES} times while it was being written; retry")


def set_aside(store: Store, key: str, version: str | None = None) -> None:
    """Moves a damaged blob to set-aside/, where a person finds it. version: the one that was seen to be
    damaged, so that what another attempt has put in its place stays. Absent is success."""
    try:
        data, found = store.get(key)
    except NotFound:
        return
    if version is not None and found.version != version:
        return
    with suppress(AlreadyExists):  # then the same damage was met before
        store.put_new(layout.set_aside(key, _sha256(data)), data)
    with suppress(Conflict):  # then the film was replaced meanwhile
        store.delete(key, found.version)


def _decoded(data: bytes, samples: int, decode: Decode[Film]) -> Film | None:
    """The film, or None where it is damaged or does not hold the samples that its name says."""
    try:
        film, inside = decode(data)
    except ValueError:
        return None
    return film if inside == samples else None


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
