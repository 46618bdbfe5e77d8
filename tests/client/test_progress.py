"""Progress is what the films and the running tiles hold, and goes back only where work is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from client.pending import PendingTile
from client.progress import LIST_SECONDS, Progress
from client.request import Options, make_requests
from client.upload import upload
from contracts import FramePlan, FrameRequest, FrameStatus, SampleCounts, TileCounts, TileStatus
from store import BlobStat, LocalStore, layout
from tests.client.test_report import job
from tracer import engine

KEY = "a" * 64
TILES = ("x0000y0000w0010h0010", "x0010y0000w0010h0010")
AREA, SAMPLES = 100, 8
TARGET = len(TILES) * AREA * SAMPLES


class CountingStore(LocalStore):
    lists = 0

    def list(self, prefix: str) -> Iterator[BlobStat]:
        self.lists += 1
        return super().list(prefix)


class Frame:
    """A frame of two tiles, and a command that looks at it."""

    def __init__(self, store: CountingStore, request: FrameRequest) -> None:
        self.store, self.request, self.now = store, request, 0.0
        self.progress = Progress(store, request.job_id, lambda: self.now)

    def look(self, *tiles: PendingTile, **more: Any) -> float:
        known: dict[str, Any] = {"input_hash": KEY, "samples": SampleCounts(target=TARGET)}
        return self.progress.complete(job(**(known | more)), tiles).progress

    def store_film(self, tile: int, samples: int) -> None:
        self.store.put_new(layout.film(KEY, TILES[tile], samples), b"film")


def beating(tile: int, samples: int) -> PendingTile:
    return PendingTile(TILES[tile], TileStatus.PROGRESSING, samples, samples * AREA, 1, 0, "w", 0)


@pytest.fixture
def frame(scene: Path, tmp_path: Path) -> Frame:
    store = CountingStore(tmp_path / "store")
    (request,), local = make_requests(scene, [1], Options(samples_per_pixel=SAMPLES))
    upload(store, local, [request])
    return Frame(store, request)


def test_a_tile_has_the_more_of_its_film_and_its_heartbeat(frame: Frame) -> None:
    frame.store_film(0, 2)
    frame.store_film(1, 4)
    frame.store_film(1, 2 * SAMPLES)  # of a frame with more samples
    assert frame.look(beating(0, 3), beating(1, 1)) == pytest.approx((3 + 4) / 16)


def test_a_tile_that_waits_again_keeps_its_share(frame: Frame) -> None:
    assert frame.look(beating(0, 5)) == pytest.approx(5 / 16)
    frame.store_film(0, 6)  # stopped by a pause: its film is stored, its heartbeat is gone
    queued = PendingTile(TILES[0], TileStatus.QUEUED, 0, 0, 0, 0, "", 0)
    frame.now += 100
    assert frame.look(queued) == pytest.approx(6 / 16)


def test_between_two_listings_nothing_goes_back_and_the_store_is_left_alone(frame: Frame) -> None:
    assert frame.look(beating(0, 5)) == pytest.approx(5 / 16)
    frame.now += 0.5 * LIST_SECONDS
    assert frame.look() == pytest.approx(5 / 16)  # its worker may have stored it, or be lost
    assert frame.store.lists == 1
    frame.now += LIST_SECONDS
    assert frame.look() == 0.0  # lost
    assert frame.store.lists == 2


def test_all_samples_are_one_before_the_frame_is_published(frame: Frame) -> None:
    for tile in (0, 1):
        frame.store_film(tile, SAMPLES)
    rendered = SampleCounts(target=TARGET, rendered=TARGET)
    assert frame.look(status=FrameStatus.FINALIZING, samples=rendered) == 1.0


def test_a_frame_that_is_submitted_again_begins_where_its_films_are(frame: Frame) -> None:
    key = frame.request.sample_key(engine.fingerprint())
    plan = FramePlan(
        sample_key=key,
        engine=engine.fingerprint(),
        request=frame.request,
        scene_hash="3" * 64,
        width=20,
        height=10,
        tile_size=10,
    )
    queued = job(FrameStatus.QUEUED, samples=SampleCounts(), tiles=TileCounts())
    assert frame.progress.complete(queued).progress == 0.0  # never rendered
    frame.store.put_new(layout.plan(key), plan.model_dump_json().encode())
    frame.store.put_new(layout.film(key, TILES[0], 4), b"film")
    status = frame.progress.complete(queued)
    assert status.progress == pytest.approx(4 / 16)
    assert (status.tiles.total, status.samples.target, status.input_hash) == (2, TARGET, key)
    frame.store.put_new(layout.film(key, TILES[1], SAMPLES), b"film")
    frame.now += 100
    assert frame.progress.complete(queued).tiles.rendered == 1


def test_of_a_run_that_has_ended_only_its_films_count(frame: Frame) -> None:
    rendered = SampleCounts(target=TARGET, rendered=TARGET // 2)
    tiles = TileCounts(total=2, rendered=1, running=1)
    ended = job(FrameStatus.CANCELLED, input_hash=KEY, samples=rendered, tiles=tiles)
    frame.look(beating(0, 5))
    frame.store_film(0, SAMPLES)
    frame.store_film(1, 2)
    status = frame.progress.of_ended(ended)
    assert status.progress == pytest.approx(10 / 16)
    assert (status.tiles.rendered, status.tiles.running) == (1, 0)
    for blob in list(frame.store.list("films/")):
        frame.store.delete(blob.key)
    status = frame.progress.of_ended(ended)
    assert (status.progress, status.tiles.rendered) == (0.0, 0)
