"""What a tile attempt does with its film: resume, store, stop, and go on without the store for a while."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from activities import tiles
from activities.attempt import Cancelled, WorkerLeaving
from activities.tiles import StoredFilm, render_to
from contracts import Tile, TileTask
from store import LocalStore, StoreFull, StoreUnavailable, layout
from store.base import Progress, silent
from tests.telemetry.meters import Recorded
from tracer.build import PreparedScene
from tracer.scene import PixelRect

TILE = Tile(x=0, y=0, width=4, height=3)
NO_SCENE = cast(PreparedScene, None)


def task(samples: int) -> TileTask:
    return TileTask(job_id="job", sample_key="a" * 64, tiles=(TILE,), samples=samples)


def film_of(store: LocalStore, samples: int) -> StoredFilm:
    return StoredFilm(store, task(samples), TILE)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


@pytest.fixture
def rendered(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Replaces the kernel by one that adds the sample's number; lists the slices (first, count)."""
    slices: list[tuple[int, int]] = []

    def render_samples(
        scene: Any, film: NDArray[np.float64], rect: PixelRect, first: int, count: int
    ) -> None:
        slices.append((first, count))
        for sample in range(first, first + count):
            film += float(sample) + 0.1

    monkeypatch.setattr(tiles, "render_samples", render_samples)
    return slices


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of one sample, however fast the kernel is."""
    monkeypatch.setattr(tiles, "SLICE_SECONDS", 1e-9)


def no_report(samples: int) -> None:
    pass


def stop_at(samples: int, kind: type[BaseException]) -> Callable[[int], None]:
    def report(done: int) -> None:
        if done >= samples:
            raise kind

    return report


def stored_counts(store: LocalStore) -> list[int]:
    keys = [blob.key for blob in store.list(layout.films("a" * 64, TILE.tile_id))]
    return [count for key in keys if (count := layout.film_samples(key)) is not None]


def test_renders_every_sample_once_and_in_order(store: LocalStore, rendered: list[tuple[int, int]]) -> None:
    render_to(film_of(store, 1000), NO_SCENE, 100.0, no_report)
    assert sum(count for _, count in rendered) == 1000
    assert [first for first, _ in rendered] == [0, *np.cumsum([count for _, count in rendered])[:-1]]
    assert stored_counts(store) == [1000]


@pytest.mark.parametrize("kind", [Cancelled, WorkerLeaving])
def test_a_stop_keeps_what_is_rendered_and_the_next_attempt_goes_on(
    store: LocalStore, rendered: list[tuple[int, int]], kind: type[BaseException]
) -> None:
    first = film_of(store, 100)
    with pytest.raises(kind):
        render_to(first, NO_SCENE, 100.0, stop_at(1, kind))
    assert first.samples == 1
    second = film_of(store, 100)
    render_to(second, NO_SCENE, 100.0, no_report)
    assert (second.resumed, rendered[1][0]) == (1, 1)

    undisturbed = LocalStore(store.root.parent / "undisturbed")
    render_to(film_of(undisturbed, 100), NO_SCENE, 100.0, no_report)
    key = layout.film("a" * 64, TILE.tile_id, 100)
    assert store.get(key)[0] == undisturbed.get(key)[0]


def test_a_rendered_tile_renders_nothing(store: LocalStore, rendered: list[tuple[int, int]]) -> None:
    render_to(film_of(store, 16), NO_SCENE, 100.0, no_report)
    rendered.clear()
    again = film_of(store, 16)
    render_to(again, NO_SCENE, 100.0, no_report)
    assert (again.resumed, rendered) == (16, [])


def test_fewer_samples_after_more_are_those_of_a_fresh_render(
    store: LocalStore, rendered: list[tuple[int, int]], tmp_path: Path
) -> None:
    render_to(film_of(store, 64), NO_SCENE, 100.0, no_report)
    render_to(film_of(store, 16), NO_SCENE, 100.0, no_report)
    fresh = LocalStore(tmp_path / "fresh")
    render_to(film_of(fresh, 16), NO_SCENE, 100.0, no_report)
    key = layout.film("a" * 64, TILE.tile_id, 16)
    assert store.get(key)[0] == fresh.get(key)[0]


def test_checkpoints_are_pruned_to_the_last_two(
    store: LocalStore, rendered: list[tuple[int, int]], one_by_one: None
) -> None:
    counts: list[int] = []
    render_to(film_of(store, 50), NO_SCENE, 0.0, lambda done: counts.append(len(stored_counts(store))))
    assert len(counts) > 3
    assert max(counts) <= 2
    assert stored_counts(store) == [49, 50]


def test_a_damaged_checkpoint_is_set_aside_and_the_one_before_is_used(
    store: LocalStore, rendered: list[tuple[int, int]]
) -> None:
    for samples in (5, 9):
        render_to(film_of(store, samples), NO_SCENE, 100.0, no_report)
    path = store.root / layout.film("a" * 64, TILE.tile_id, 9)
    data = bytearray(path.read_bytes())
    data[-40] ^= 1
    path.write_bytes(data)
    film = film_of(store, 12)
    film.load()
    assert film.samples == 5
    assert [blob.key for blob in store.list("set-aside/")]


class AwayStore(LocalStore):
    """A store that cannot take films for a number of tries."""

    away = 0
    error: type[Exception] = StoreUnavailable

    def put_new(self, key: str, data: bytes | Path, progress: Progress = silent) -> Any:
        if self.away > 0 and key.startswith("films/"):
            self.away -= 1
            raise self.error("away")
        return super().put_new(key, data)


@pytest.mark.parametrize("error", [StoreUnavailable, StoreFull])
def test_a_store_that_is_away_for_a_while_costs_no_work(
    tmp_path: Path, rendered: list[tuple[int, int]], one_by_one: None, error: type[Exception]
) -> None:
    store = AwayStore(tmp_path / "store")
    store.away, store.error = 3, error
    render_to(film_of(store, 50), NO_SCENE, 0.0, no_report)
    assert store.away == 0
    assert sum(count for _, count in rendered) == 50
    assert stored_counts(store) == [49, 50]


def test_a_finished_film_waits_for_the_store_and_beats(
    tmp_path: Path, rendered: list[tuple[int, int]]
) -> None:
    store = AwayStore(tmp_path / "store")
    store.away = 4
    beats: list[int] = []
    render_to(film_of(store, 10), NO_SCENE, 100.0, beats.append)
    assert stored_counts(store) == [10]
    assert sum(count for _, count in rendered) == 10  # nothing was rendered again
    assert beats.count(10) >= 3


def test_a_stop_ends_the_wait_for_the_store(tmp_path: Path, rendered: list[tuple[int, int]]) -> None:
    store = AwayStore(tmp_path / "store")
    store.away = 1_000_000
    with pytest.raises(Cancelled):
        render_to(film_of(store, 10), NO_SCENE, 100.0, stop_at(10, Cancelled))


def test_what_was_rendered_saved_and_lost_is_counted(
    store: LocalStore, rendered: list[tuple[int, int]], one_by_one: None
) -> None:
    first, second = Recorded(), Recorded()
    told = {"tile": TILE.tile_id, "samples": 70}
    film = StoredFilm(store, task(64), TILE, first.metrics, {"tile": "another", "samples": 9})
    render_to(film, NO_SCENE, 100.0, no_report)
    render_to(StoredFilm(store, task(80), TILE, second.metrics, told), NO_SCENE, 0.0, no_report)

    assert first.total("tessera_samples_rendered") == 64 * TILE.area
    assert first.total("tessera_samples_resumed") == first.total("tessera_samples_lost") == 0
    assert first.total("tessera_checkpoints", result="written") == 1
    assert first.total("tessera_tiles_finished", start="fresh") == 1
    # The attempt before had told of 70 samples and stored 64.
    assert second.total("tessera_samples_rendered") == 16 * TILE.area
    assert second.total("tessera_samples_resumed") == 64 * TILE.area
    assert second.total("tessera_samples_lost") == 6 * TILE.area
    assert second.total("tessera_checkpoints", result="resumed") == 1
    assert second.total("tessera_checkpoints", result="written") == 16
    assert second.total("tessera_wave_duration_seconds") == 16
    assert second.total("tessera_tiles_finished", start="resumed") == 1


def test_refused_unstored_and_known_checkpoints_are_counted(
    tmp_path: Path, rendered: list[tuple[int, int]], one_by_one: None
) -> None:
    store, recorded = AwayStore(tmp_path / "store"), Recorded()
    store.away = 3
    render_to(StoredFilm(store, task(9), TILE, recorded.metrics), NO_SCENE, 0.0, no_report)
    assert recorded.total("tessera_checkpoints", result="unstored") == 3

    path = store.root / layout.film("a" * 64, TILE.tile_id, 9)
    path.write_bytes(path.read_bytes()[:-1])
    film = StoredFilm(store, task(9), TILE, recorded.metrics)
    film.load()
    assert recorded.total("tessera_checkpoints", result="refused") == 1

    other = StoredFilm(store, task(9), TILE, recorded.metrics)
    data = other.load()
    other.save(data, 9)
    film.save(data, 9)
    assert recorded.total("tessera_checkpoints", result="known") == 1
    assert recorded.total("tessera_duplicates_suppressed", kind="checkpoint") == 1
