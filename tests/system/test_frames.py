"""Frames on a real farm: once, twice, at the same time, cancelled, paused, refined, and very many tiles."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from client.published import tile_area
from settings import connect
from store import layout
from tests.system.conftest import SAMPLES, SCENE
from tests.system.farm import Farm, poll
from tests.system.test_crashes import same_picture, submit
from workflows import policies

pytestmark = pytest.mark.system

QUICK = ("--size", "64x64", "--tile", "32", "--spp", "4")


def test_twice_is_once_and_every_field_of_the_contract_is_there(farm: Farm, scene: Path) -> None:
    farm.start_worker("control")
    farm.start_worker("tiles")
    first = farm.tessera("render", str(scene), "-o", "a.exr", *QUICK)
    assert first["samples"] == {"target": 64 * 64 * 4, "rendered": 64 * 64 * 4, "resumed": 0}
    fields = "job_id idempotency_key status frame progress tiles samples attempts error result input_hash"
    fields += " max_retries lease progress_pointer created_at updated_at"
    assert set(fields.split()) <= set(first)

    second = farm.tessera("render", str(scene), "-o", "b.exr", *QUICK)
    assert (second["job_id"], second["samples"]["rendered"]) == (first["job_id"], 0)
    assert second["result"] == first["result"]
    assert (farm.folder / "a.exr").read_bytes() == (farm.folder / "b.exr").read_bytes()

    texture = next(scene.parent.glob("cornell*.png"))
    shutil.copy(SCENE.parent / texture.name, texture)
    with open(texture, "ab") as file:
        file.write(b"\0")
    assert farm.tessera("submit", str(scene), *QUICK)["job_id"] != first["job_id"]


def test_the_manifest_answers_without_a_server(farm: Farm) -> None:
    farm.start_worker("control")
    farm.start_worker("tiles")
    first = farm.tessera("render", str(SCENE), "-o", "a.exr", *QUICK)
    for process in farm.processes:
        process.kill()
        process.wait()
    second = farm.tessera("render", str(SCENE), "-o", "b.exr", *QUICK)
    assert second["result"] == first["result"]


def test_two_at_the_same_time_are_one_workflow(farm: Farm) -> None:
    clients = [farm.start_tessera("render", str(SCENE), "-o", f"{n}.exr", *QUICK) for n in range(3)]
    farm.start_worker("control")
    farm.start_worker("tiles")
    assert [client.wait(120) for client in clients] == [0, 0, 0]
    assert len({(farm.folder / f"{n}.exr").read_bytes() for n in range(3)}) == 1
    assert len(farm.tessera("list")["frames"]) == 1


def test_more_samples_render_only_the_missing_ones(farm: Farm) -> None:
    farm.start_worker("control")
    farm.start_worker("tiles")
    options = ("--size", "64x64", "--tile", "32")
    farm.tessera("render", str(SCENE), "-o", "a.exr", *options, "--spp", "16")
    more = farm.tessera("render", str(SCENE), "-o", "b.exr", *options, "--spp", "64")
    assert more["samples"] == {
        "target": 64 * 64 * 64,
        "rendered": 64 * 64 * 48,
        "resumed": 64 * 64 * 16,
    }


def test_cancelled_and_submitted_again_goes_on(farm: Farm, undisturbed: dict[str, Any]) -> None:
    farm.start_worker("control")
    farm.start_worker("tiles")
    job = submit(farm)
    farm.wait_for_films(2)
    farm.tessera("cancel", job)
    farm.wait_for_status(job, "cancelled")
    films = farm.films()
    assert submit(farm) == job
    status = farm.wait_for_status(job, "completed", "failed_terminal")
    same_picture(status, undisturbed)
    assert status["samples"]["resumed"] > 0
    assert films


def test_the_store_alone_takes_a_frame_up_after_temporal_lost_everything(
    farm: Farm, undisturbed: dict[str, Any]
) -> None:
    farm.start_worker("control")
    farm.start_worker("tiles")
    job = submit(farm)
    farm.wait_for_films(2)
    for process in farm.processes:
        process.kill()
        process.wait()
    stored = sum(newest_samples(farm).values())
    for file in farm.folder.glob("temporal.db*"):
        file.unlink()
    farm.start_server()
    farm.start_worker("control")
    farm.start_worker("tiles")
    assert "submit" in farm.tessera("status", job)["note"]
    assert submit(farm) == job
    status = farm.wait_for_status(job, "completed", "failed_terminal")
    same_picture(status, undisturbed)
    assert status["samples"]["resumed"] == stored > 0


def newest_samples(farm: Farm) -> dict[str, int]:
    """Pixels times samples of the newest film of each tile, by its place."""
    newest = {}
    for film in farm.films():
        place, samples = film.key.rsplit("/", 1)[0], layout.film_samples(film.key)
        newest[place] = tile_area(place) * (samples or 0)  # keys come in the order of samples
    return newest


def test_paused_renders_nothing_and_loses_nothing(farm: Farm, undisturbed: dict[str, Any]) -> None:
    farm.start_worker("control")
    farm.start_worker("tiles")
    job = submit(farm)
    farm.wait_for_films(2)
    farm.tessera("pause", job)
    poll(lambda: farm.tessera("status", job)["tiles"]["running"] == 0, "tiles stop")
    assert farm.tessera("status", job)["status"] == "paused"
    films = farm.films()
    farm.tessera("status", job)  # as good a while as any
    assert farm.films() == films
    farm.tessera("resume", job)
    status = farm.wait_for_status(job, "completed", "failed_terminal")
    same_picture(status, undisturbed)
    assert status["attempts"]["lost"] == 0


def test_any_tiling_and_any_number_of_slots_give_the_same_film(tmp_path: Path, stores: str) -> None:
    documents = []
    for number, (tile, slots) in enumerate((("16", 1), ("50", 2), ("128", 3))):
        folder = tmp_path / str(number)
        folder.mkdir()
        farm = Farm(folder, stores)
        try:
            farm.start_server()
            farm.start_worker("control")
            farm.start_worker("tiles", slots)
            documents.append(
                farm.tessera(
                    "render", str(SCENE), "-o", "a.exr", "--size", "97x61", "--spp", "9", "--tile", tile
                )
            )
        finally:
            farm.close()
    assert len({document["result"]["film_sha256"] for document in documents}) == 1


def test_a_corrupt_scene_gets_one_attempt_and_one_clear_line(farm: Farm, tmp_path: Path) -> None:
    farm.start_worker("control")
    farm.start_worker("tiles")
    bad = tmp_path / "bad.ply"
    bad.write_text(
        "ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\n"
        "element face 1\nproperty list uchar int vertex_indices\nend_header\n0 0 0\n1 0 0\n0 1 0\n3 0 1 7\n"
    )
    status = farm.tessera("render", str(bad), "-o", "a.png", *QUICK, code=1)
    assert status["status"] == "failed_terminal"
    assert status["error"]["code"] == "scene_invalid"
    assert "bad.ply" in status["error"]["message"] and "\n" not in status["error"]["message"]
    # The worker is unharmed.
    farm.tessera("render", str(SCENE), "-o", "b.png", *QUICK)


def test_four_thousand_tiny_tiles(farm: Farm) -> None:
    farm.start_worker("control")
    farm.start_worker("tiles")
    options = ("--size", "640x400", "--tile", "8", "--spp", "1", "--max-depth", "2")
    status = farm.tessera("render", str(SCENE), "-o", "a.exr", *options)
    assert status["tiles"] == {"total": 4000, "rendered": 4000, "running": 0, "dead": 0}
    runs = asyncio.run(histories(farm, status["job_id"]))
    assert len(runs) > 1  # it continued as new
    assert sum(len(events) for events in runs) <= 4 * 4000
    pending = peak = 0
    for event in (event for events in runs for event in events):
        pending += event.HasField("activity_task_scheduled_event_attributes")
        pending -= event.HasField("activity_task_completed_event_attributes")
        peak = max(peak, pending)
    assert peak <= policies.WINDOW


async def histories(farm: Farm, job: str) -> list[list[Any]]:
    """The events of every run of the chain."""
    client = await connect(f"127.0.0.1:{farm.port}")
    description = await client.get_workflow_handle(job).describe()
    run_id = description.raw_description.workflow_execution_info.first_run_id
    runs = []
    while run_id:
        events = list((await client.get_workflow_handle(job, run_id=run_id).fetch_history()).events)
        runs.append(events)
        run_id = events[-1].workflow_execution_continued_as_new_event_attributes.new_execution_run_id
    return runs


def test_a_tile_whose_film_is_damaged_before_the_end_is_rendered_again(
    farm: Farm, undisturbed: dict[str, Any]
) -> None:
    farm.start_worker("control")
    farm.start_worker("tiles")
    job = submit(farm)
    finished = poll(
        lambda: [film.key for film in farm.films() if layout.film_samples(film.key) == SAMPLES],
        "a tile is rendered",
    )[0]
    data = bytearray(farm.store.get(finished)[0])
    data[len(data) // 2] ^= 1
    farm.store.delete(finished)
    farm.store.put_new(finished, bytes(data))
    status = farm.wait_for_status(job, "completed", "failed_terminal")
    same_picture(status, undisturbed)
    assert list(farm.store.list("set-aside/"))


def test_the_manifest_names_every_film(farm: Farm) -> None:
    farm.start_worker("control")
    farm.start_worker("tiles")
    status = farm.tessera("render", str(SCENE), "-o", "a.exr", *QUICK)
    manifest = json.loads(farm.store.get(status["result"]["manifest"])[0])
    assert len(manifest["frame"]["films"]) == 4
    for film in manifest["frame"]["films"]:
        assert farm.store.stat(film["key"]) is not None


def test_a_published_frame_verifies(farm: Farm) -> None:
    farm.start_worker("control")
    farm.start_worker("tiles")
    job = farm.tessera("render", str(SCENE), "-o", "a.exr", *QUICK)["job_id"]
    assert farm.tessera("verify", job, "--deep", "2")["faults"] == []
    film = farm.films()[-1].key
    farm.store.delete(film)
    assert farm.tessera("verify", job, code=1)["faults"] == [f"{film}: gone from the store"]
