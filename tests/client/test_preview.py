"""The picture of a frame that renders: what is there, as it will look; checkered where nothing is yet."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from client.picture import DARK, LIGHT, Picture, Pixels
from contracts import FinalizeTask, FrameRequest, Manifest, Tile
from starter import main
from store import LocalStore, Store, layout
from tests.stress.finalizer import SAMPLES, prepare, run_attempt
from tracer.film import encode_film, new_film
from tracer.images import write_png
from workflows.tiling import tile_at, tile_count


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


@pytest.fixture
def task(store: LocalStore) -> FinalizeTask:
    """All tiles of this frame are rendered; it is not published."""
    task = prepare(store, 1)
    store.put_new(layout.plan(task.plan.sample_key), task.plan.model_dump_json().encode())
    store.put_new(layout.job(task.job_id), task.request.model_dump_json().encode())
    return task


def film_key(task: FinalizeTask, tile: Tile, samples: int = SAMPLES) -> str:
    return layout.film(task.plan.sample_key, tile.tile_id, samples)


def picture(store: Store, task: FinalizeTask) -> Picture:
    made = Picture(store, task.plan, task.request)
    made.refresh()
    return made


def area(pixels: Pixels, tile: Tile) -> Pixels:
    return pixels[tile.y : tile.y + tile.height, tile.x : tile.x + tile.width]


def is_checkered(pixels: Pixels) -> bool:
    return set(np.unique(pixels[..., :3]).tolist()) == {DARK, LIGHT}


def test_with_all_its_tiles_it_is_the_published_preview(
    store: LocalStore, task: FinalizeTask, tmp_path: Path
) -> None:
    made = picture(store, task)
    assert made.share == 1.0
    write_png(tmp_path / "made.png", made.pixels)
    run_attempt(store, task, 1, 1, lambda: None)
    frame = Manifest.decode(store.get(layout.manifest(task.job_id))[0]).frame
    (published,) = (image for image in frame.images if image.name == "preview.png")
    assert (tmp_path / "made.png").read_bytes() == store.get(published.key)[0]


def test_what_is_not_rendered_is_checkered(store: LocalStore, task: FinalizeTask) -> None:
    first, second = tile_at(task.plan, 0), tile_at(task.plan, 1)
    whole = picture(store, task).pixels
    store.delete(film_key(task, first))
    made = picture(store, task)
    assert is_checkered(area(made.pixels, first))
    assert (area(made.pixels, second) == area(whole, second)).all()
    assert made.share == pytest.approx(1 - 1 / tile_count(task.plan))


def test_a_checkpoint_is_shown_at_its_own_brightness_and_replaced_by_a_newer_one(
    store: LocalStore, task: FinalizeTask
) -> None:
    tile = tile_at(task.plan, 0)
    whole, finished = picture(store, task).pixels, store.get(film_key(task, tile))[0]
    store.delete(film_key(task, tile))
    half = new_film(tile.width, tile.height)
    half[..., :3] = 0.5 * (SAMPLES // 2)
    encoded = encode_film(half, sample_key=task.plan.sample_key, tile_id=tile.tile_id, samples=SAMPLES // 2)
    store.put_new(film_key(task, tile, SAMPLES // 2), encoded)
    made = picture(store, task)
    assert np.unique(area(made.pixels, tile)).tolist() == [188]  # a mean of 0.5 in sRGB
    assert not made.refresh()  # nothing new
    store.put_new(film_key(task, tile), finished)
    assert made.refresh()
    assert (made.pixels == whole).all()


def test_a_damaged_film_is_passed_over_and_left_where_it_is(store: LocalStore, task: FinalizeTask) -> None:
    tile = tile_at(task.plan, 0)
    store.delete(film_key(task, tile))
    store.put_new(film_key(task, tile), b"not a film")
    assert is_checkered(area(picture(store, task).pixels, tile))
    assert store.get(film_key(task, tile))[0] == b"not a film"


def test_films_of_more_samples_than_asked_for_are_another_frames(
    store: LocalStore, task: FinalizeTask
) -> None:
    fewer: FrameRequest = task.request.model_copy(update={"samples_per_pixel": SAMPLES // 2})
    assert picture(store, task.model_copy(update={"request": fewer})).share == 0.0


def test_a_large_picture_is_thinned_out_as_the_preview_is(
    store: LocalStore, task: FinalizeTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = picture(store, task).pixels
    monkeypatch.setattr("client.picture.PREVIEW_EDGE", 64)  # 160 pixels: every third
    assert (picture(store, task).pixels == whole[::3, ::3]).all()


def test_the_command_writes_what_there_is_without_temporal(
    store: LocalStore,
    task: FinalizeTask,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TESSERA_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    output = tmp_path / "x.png"
    store.delete(film_key(task, tile_at(task.plan, 0)))
    assert main(["preview", task.job_id, "-o", str(output), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["progress"] == pytest.approx(1 - 1 / tile_count(task.plan))
    with Image.open(output) as image:
        assert image.size == (task.plan.width, task.plan.height)
        assert is_checkered(area(np.asarray(image), tile_at(task.plan, 0)))

    assert main(["preview", task.job_id, "-o", str(tmp_path / "x.exr")]) == 2
    assert "a preview is a .png" in capsys.readouterr().err
    store.delete(layout.plan(task.plan.sample_key))
    assert main(["preview", task.job_id, "-o", str(output)]) == 2
    assert "not prepared yet" in capsys.readouterr().err
