"""Whatever is killed, whenever: the frame completes, goes on from its checkpoints, and is the same bytes."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.system.conftest import OPTIONS, SCENE
from tests.system.farm import Farm, kill, poll

pytestmark = pytest.mark.system


def same_picture(status: dict[str, Any], undisturbed: dict[str, Any]) -> None:
    assert status["status"] == "completed"
    assert status["progress"] == 1.0
    assert status["samples"]["rendered"] + status["samples"]["resumed"] == status["samples"]["target"]
    for name in ("film_sha256", "sha256"):
        assert status["result"][name] == undisturbed["result"][name], name


def submit(farm: Farm) -> str:
    job: str = farm.tessera("submit", str(SCENE), *OPTIONS)["job_id"]
    return job


def test_sigkill_of_the_tile_worker(farm: Farm, undisturbed: dict[str, Any]) -> None:
    farm.start_worker("control")
    tiles = farm.start_worker("tiles")
    job = submit(farm)
    farm.wait_for_films(2)
    kill(tiles)
    farm.start_worker("tiles")
    status = farm.wait_for_status(job, "completed", "dead_lettered", "failed_terminal")
    same_picture(status, undisturbed)
    assert status["samples"]["resumed"] > 0
    assert status["attempts"]["lost"] > 0


def test_sigkill_of_the_control_worker(farm: Farm, undisturbed: dict[str, Any]) -> None:
    control = farm.start_worker("control")
    farm.start_worker("tiles")
    job = submit(farm)
    farm.wait_for_films(2)
    kill(control)
    farm.start_worker("control")
    status = farm.wait_for_status(job, "completed", "dead_lettered", "failed_terminal")
    same_picture(status, undisturbed)
    assert status["attempts"]["lost"] == 0  # tiles never noticed


def test_sigkill_of_the_temporal_server(farm: Farm, undisturbed: dict[str, Any]) -> None:
    farm.start_worker("control")
    farm.start_worker("tiles")
    watcher = farm.start_tessera("render", str(SCENE), "-o", "out.exr", *OPTIONS)
    farm.wait_for_films(2)
    kill(farm.processes[0])
    farm.start_server()
    assert watcher.wait(120) == 0  # the client survives it too
    status = farm.tessera("status", submit(farm))
    same_picture(status, undisturbed)


def test_sigkill_of_everything_at_random_moments(farm: Farm, undisturbed: dict[str, Any]) -> None:
    random.seed(7)
    farm.start_worker("control")
    farm.start_worker("tiles")
    client = farm.start_tessera("render", str(SCENE), "-o", "out.exr", *OPTIONS)
    for _ in range(2):
        farm.wait_for_films(len(farm.films()) + 1)
        time.sleep(random.random())  # a random moment is the point here
        for process in farm.processes:
            if process.poll() is None:
                kill(process)
        farm.start_server()
        farm.start_worker("control")
        farm.start_worker("tiles")
        client = farm.start_tessera("render", str(SCENE), "-o", "out.exr", *OPTIONS)
    assert client.wait(200) == 0
    status = farm.tessera("status", submit(farm))
    same_picture(status, undisturbed)
    assert status["samples"]["resumed"] > 0


def test_sigterm_hands_over_without_spending_an_attempt(farm: Farm, undisturbed: dict[str, Any]) -> None:
    farm.start_worker("control")
    first = farm.start_worker("tiles")
    farm.start_worker("tiles")
    job = submit(farm)
    farm.wait_for_films(2)
    kill(first, signal.SIGTERM)
    assert first.wait(30) == 0
    status = farm.wait_for_status(job, "completed", "dead_lettered", "failed_terminal")
    same_picture(status, undisturbed)
    assert status["attempts"]["yielded"] > 0
    assert status["attempts"]["lost"] == 0
    assert status["samples"]["resumed"] > 0


def test_the_embedded_farm_is_killed_and_the_same_command_goes_on(
    tmp_path: Path, stores: str, undisturbed: dict[str, Any]
) -> None:
    farm = Farm(tmp_path, stores)
    del farm.env["TEMPORAL_ADDRESS"]
    client = farm.start_tessera("render", str(SCENE), "-o", "out.exr", *OPTIONS)
    farm.wait_for_films(2)
    for pid in descendants(farm):
        signal_quietly(pid)
    client.wait(20)
    status = farm.tessera("render", str(SCENE), "-o", "out.exr", *OPTIONS)
    same_picture(status, undisturbed)
    assert status["samples"]["resumed"] > 0
    poll(lambda: not descendants(farm), "the embedded farm is gone when nobody uses it")


def descendants(farm: Farm) -> list[int]:
    """Every process whose environment names this farm's state folder."""
    marker = f"TESSERA_STATE_DIR={farm.env['TESSERA_STATE_DIR']}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                environment = (folder / "environ").read_bytes()
            except OSError:  # it ended meanwhile
                continue
            if marker in environment.split(b"\0"):
                found.append(int(folder.name))
    return found


def signal_quietly(pid: int) -> None:
    import os
    from contextlib import suppress

    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
