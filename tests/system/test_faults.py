"""What a tile or a machine does to a frame, on a real farm: a hung kernel, a poison tile."""

from __future__ import annotations

import asyncio
import hashlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.history.v1 import HistoryEvent

from settings import connect
from store import layout
from tests.system.bad_worker import POISON
from tests.system.conftest import OPTIONS, SAMPLES
from tests.system.farm import Farm, poll
from tests.system.test_crashes import same_picture, submit
from workflows import policies

pytestmark = pytest.mark.system


def bad_worker(farm: Farm, how: str, role: str) -> subprocess.Popen[bytes]:
    return farm._start(f"bad-{role}", [sys.executable, "-m", "tests.system.bad_worker", how, role])


@contextmanager
def restarted(farm: Farm, how: str, role: str) -> Iterator[None]:
    """A bad worker that is started again whenever it dies, as a supervisor does."""
    stop = threading.Event()

    def keep() -> None:
        while not stop.is_set():
            bad = bad_worker(farm, how, role)
            while bad.poll() is None and not stop.wait(0.1):
                pass

    thread = threading.Thread(target=keep)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_a_worker_with_a_hung_kernel_leaves_and_its_tile_goes_on_elsewhere(
    farm: Farm, undisturbed: dict[str, Any]
) -> None:
    farm.start_worker("control")
    hanging = bad_worker(farm, "hang", "tiles")
    job = submit(farm)
    poll(lambda: hanging.poll() is not None, "the worker leaves")
    log = (farm.folder / "bad-tiles.log").read_text()
    assert hanging.returncode == 70 and "an attempt hangs" in log, log[-2000:]
    farm.start_worker("tiles")
    status = farm.wait_for_status(job, "completed", "failed_terminal")
    same_picture(status, undisturbed)
    assert status["attempts"]["lost"] > 0


def test_a_poison_tile_is_given_up_after_exactly_its_attempts(
    farm: Farm, undisturbed: dict[str, Any]
) -> None:
    """It kills every process that renders it. Its frame's other tiles are all rendered, the frame parks with
    all that is needed to look into it, and when the machine is mended it completes with the same bytes."""
    farm.start_worker("control")
    with restarted(farm, "segfault", "tiles"), restarted(farm, "segfault", "isolated"):
        job = submit(farm)
        status = farm.wait_for_status(job, "dead_lettered", "completed", "failed_terminal")
    assert (status["status"], status["tiles"]["rendered"], status["tiles"]["dead"]) == ("dead_lettered", 8, 1)
    (letter,) = farm.tessera("dead-letters")["dead_letters"]
    (failure,) = letter["failures"]
    attempts = policies.TILE_RETRY.maximum_attempts + policies.ISOLATED_RETRY.maximum_attempts
    assert (letter["job_id"], failure["tile_id"], failure["attempt"]) == (job, POISON, attempts)
    assert "renderer_crashed" in failure["message"] and "SIGSEGV" in failure["message"]
    (frame,) = farm.tessera("list", "--status", "dead_lettered")["frames"]
    assert frame["job_id"] == job

    shown = farm.tessera("dead-letters", "show", job)
    assert shown["reproduce"] == [f"tessera render-tile {job} {POISON}"]
    made = farm.tessera(*shown["reproduce"][0].split()[1:], "-o", "poison.film")
    assert made["same_as_stored"] is None

    farm.start_worker("tiles")
    assert farm.tessera("retry", job, "--tile", "x0000y0000w0032h0032", code=2)
    farm.tessera("retry", job, "--tile", POISON)
    same_picture(farm.wait_for_status(job, "completed", "failed_terminal"), undisturbed)
    assert farm.tessera("dead-letters")["dead_letters"] == []
    film = next(film.key for film in farm.films() if POISON in film.key and f"{SAMPLES:08d}" in film.key)
    assert (farm.folder / "poison.film").read_bytes() == farm.store.get(film)[0]


def test_a_worker_waits_for_temporal_and_says_what_it_cannot_reach(tmp_path: Path) -> None:
    farm = Farm(tmp_path, str(tmp_path / "stores"))
    try:
        early = farm._start("early", [sys.executable, "-m", "worker", "--role", "tiles", "--slots", "1"])
        log = tmp_path / "early.log"
        poll(lambda: b"trying again" in log.read_bytes() or early.poll() is not None, "it waits")
        farm.start_server()
        poll(lambda: b'"polling"' in log.read_bytes() or early.poll() is not None, "it polls")
        assert early.poll() is None, log.read_text()[-2000:]
        farm.env["TESSERA_STORE"] = "/proc/nowhere"
        lost = farm._start("lost", [sys.executable, "-m", "worker", "--role", "tiles", "--slots", "1"])
        poll(lambda: lost.poll() is not None, "it leaves")
        text = (tmp_path / "lost.log").read_text()
        assert lost.returncode == 69 and "/proc/nowhere" in text and "Traceback" not in text, text
    finally:
        farm.close()


def test_a_corrupt_scene_and_a_missing_texture_make_one_attempt(farm: Farm, scene: Path) -> None:
    texture = next(scene.parent.glob("cornell*.png"))
    whole = texture.read_bytes()
    texture.write_bytes(whole[:40] + b"no picture")
    corrupt = farm.tessera("submit", str(scene), *OPTIONS)["job_id"]
    texture.write_bytes(whole)
    missing = farm.tessera("submit", str(scene), *OPTIONS)["job_id"]
    farm.store.delete(layout.blob(hashlib.sha256(whole).hexdigest()))
    farm.start_worker("control")
    farm.start_worker("tiles")
    for job, code in ((corrupt, "scene_invalid"), (missing, "asset_missing")):
        status = farm.wait_for_status(job, "failed_terminal", "completed", "dead_lettered")
        assert (status["status"], status["error"]["code"]) == ("failed_terminal", code)
        assert status["error"]["attempt"] == 1 and texture.name in status["error"]["message"]
        history = asyncio.run(events(farm, job))
        assert [e.activity_task_started_event_attributes.attempt for e in history] == [1]


async def events(farm: Farm, job: str) -> list[HistoryEvent]:
    """Every start of an activity that the history knows."""
    client = await connect(farm.env["TEMPORAL_ADDRESS"])
    history = await client.get_workflow_handle(job).fetch_history()
    return [e for e in history.events if e.HasField("activity_task_started_event_attributes")]
