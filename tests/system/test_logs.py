"""The lines of workers: JSON, and each says whose it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.system.conftest import OPTIONS, SCENE
from tests.system.farm import Farm, kill, poll

pytestmark = pytest.mark.system


def lines(farm: Farm, role: str) -> list[dict[str, Any]]:
    """Every whole line of every worker of this role. A line that is no JSON fails."""
    texts = [file.read_text() for file in sorted(farm.folder.glob(f"{role}-*.log"))]
    whole = [line for text in texts for line in text.splitlines(keepends=True) if line[-1] == "\n"]
    return [json.loads(line) for line in whole]


def events(farm: Farm, role: str, event: str) -> list[dict[str, Any]]:
    return [line for line in lines(farm, role) if line["event"] == event]


def test_a_frames_story_is_in_the_logs(farm: Farm) -> None:
    farm.start_worker("control")
    first = farm.start_worker("tiles")
    submitted = farm.tessera("submit", str(SCENE), *OPTIONS[:-1], "300")
    job = submitted["job_id"]
    farm.wait_for_films(2)
    kill(first)
    farm.start_worker("tiles")
    farm.wait_for_status(job, "completed")

    changes = [line for line in lines(farm, "control") if line["event"].startswith("frame ")]
    states = [line["event"].removeprefix("frame ") for line in changes]
    assert states[0] == "none -> queued" and states[-1] == "finalizing -> completed"
    assert {line["job_id"] for line in changes} == {job}
    assert {line["idempotency_key"] for line in changes} == {submitted["idempotency_key"]}

    workers = {line["worker"] for line in events(farm, "tiles", "polling")}
    assert len(workers) == 2
    mine = [line for line in lines(farm, "tiles") if "activity" in line]
    assert {line["job_id"] for line in mine} == {job}
    assert {line["worker"] for line in mine} == workers
    for line in mine:
        run, activity, attempt = line["attempt_id"].split("/")
        assert run and activity and int(attempt) >= 1
        if line["activity"] == "render_tile" and line["event"] != "retry":
            assert line["tile_id"].startswith("x"), line

    checkpoints = events(farm, "tiles", "checkpoint")
    assert len({line["tile_id"] for line in checkpoints}) == 9
    retries = events(farm, "tiles", "retry")
    assert {line["reason"] for line in retries} == {"worker_lost"}
    assert all(line["samples"] > 0 for line in events(farm, "tiles", "resumed"))
    for event in ("lease acquired", "lease released", "published"):
        (line,) = events(farm, "tiles", event)
        assert line["fence"] == 1 and line["activity"] == "finalize_frame"


def test_temporals_own_lines_go_the_same_way(farm: Farm) -> None:
    """Its core would write to stdout, in a form of its own."""
    farm.start_worker("control")
    kill(farm.processes[0])
    poll(
        lambda: [line for line in lines(farm, "control") if line["logger"].startswith("temporalio.core")],
        "the core's complaint about the absent server is logged",
    )
