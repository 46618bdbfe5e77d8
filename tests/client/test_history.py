"""A frame's life in plain lines, from recorded histories and from heartbeats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter

from client.history import Entry, of_manifest, past_entry
from client.history_events import RunHistory, running_attempts
from client.request import Options, make_requests
from contracts import TileRecord
from store import LocalStore
from tests.client.desk import Desk
from tests.client.published_frame import HEIGHT, WIDTH, Publish

HISTORIES = Path(__file__).parents[1] / "workflows" / "histories"
TILE = "x0000y0000w0010h0010"
SAID = {
    "tile": TILE,
    "samples": 7,
    "stored": 4,
    "resumed": 2,
    "attempt": 1,
    "worker": "w1",
    "since": "2026-01-01T12:00:00.000+00:00",
    "at": "2026-01-01T12:00:03.000+00:00",
}


async def told(name: str) -> list[Entry]:
    history = WorkflowHistory.from_json("job", (HISTORIES / f"{name}.json").read_text())
    run = RunHistory(pydantic_data_converter)
    return [entry for event in history.events for entry in await run.read(event)]


def attempts_of(entries: list[Entry]) -> list[Entry]:
    return [entry for entry in entries if entry.tile is not None and entry.tile.startswith("x")]


async def test_every_activity_and_every_word_of_a_person_is_told() -> None:
    entries = await told("troubles")
    whole = [entry.what for entry in entries if entry.tile is None]
    assert whole[0] == "run started" and whole[-1] == "the history is long"
    assert any(what.startswith("signal pause from recorder") for what in whole)
    attempts = attempts_of(entries)
    assert {"rendered", "yielded"} <= {entry.what for entry in attempts}
    assert any("renderer_crashed" in entry.what for entry in attempts)
    assert all(entry.worker and entry.seconds is not None for entry in attempts)
    assert "prepare" in {entry.tile for entry in entries}


async def test_the_runs_of_one_frame_join() -> None:
    whole = [entry.what for entry in await told("continued") if entry.tile is None]
    assert whole[0] == "run started" and whole[-1] == "the history is long"
    cancelled = [entry.what for entry in await told("cancelled") if entry.tile is None]
    assert "cancel requested" in cancelled and cancelled[-1] == "cancelled"


def test_a_lost_attempt_is_told_by_its_last_heartbeat() -> None:
    entry = past_entry(TILE, SAID)
    assert (entry.attempt, entry.worker, entry.seconds, entry.samples) == (1, "w1", 3.0, 500)
    assert entry.what == "worker_lost: no more heartbeats; 300 of the samples were not stored yet"
    assert entry.line() == f"2026-01-01 12:00:00  {TILE} attempt 1 on w1: 3 s, 500 samples, {entry.what}"
    assert past_entry(TILE, SAID | {"failed": "storage_full", "stored": 7}).what == "storage_full"


def pending(attempt: int, said: dict[str, Any]) -> PendingActivityInfo:
    info = PendingActivityInfo(activity_id=f"{TILE}.1", attempt=attempt, last_worker_identity="w2")
    info.activity_type.name = "render_tile"
    info.state = PendingActivityState.PENDING_ACTIVITY_STATE_STARTED
    info.last_started_time.FromSeconds(2_000_000_000)
    info.heartbeat_details.payloads.add(data=json.dumps(said).encode())
    return info


def test_what_runs_is_told_with_the_attempts_before_it() -> None:
    lost, runs = running_attempts([pending(2, SAID)])  # the second has not beaten yet
    assert (lost.attempt, lost.samples) == (1, 500)
    assert (runs.attempt, runs.worker, runs.what, runs.samples) == (2, "w2", "running", None)
    beats = SAID | {"attempt": 2, "worker": "w2", "past": [SAID]}
    lost, runs = running_attempts([pending(2, beats)])
    assert (lost.worker, runs.samples) == ("w1", 500)


def test_temporal_knows_best_why_the_attempt_before_ended() -> None:
    info = pending(2, SAID)
    info.last_failure.message = "no room"
    info.last_failure.application_failure_info.type = "storage_full"
    assert running_attempts([info])[0].what == "storage_full: no room"


def test_the_manifest_tells_of_what_temporal_has_forgotten(
    scene: Path, tmp_path: Path, publish: Publish
) -> None:
    (request,), _ = make_requests(scene, [1], Options(samples_per_pixel=8))
    manifest = publish(LocalStore(tmp_path / "store"), request)
    tile = f"x0000y0000w{WIDTH:04d}h{HEIGHT:04d}"
    record = TileRecord(tile_id=tile, attempts=3, worker="w1")
    manifest = manifest.model_copy(
        update={"publication": manifest.publication.model_copy(update={"tiles": (record,)})}
    )
    rendered, published = of_manifest(manifest, complete=False)
    assert (rendered.attempt, rendered.worker, rendered.samples) == (3, "w1", WIDTH * HEIGHT * 8)
    assert published.what.startswith("published by w")
    assert [entry.what for entry in of_manifest(manifest, complete=True)] == [published.what]


@pytest.mark.asyncio(loop_scope="module")
async def test_an_unknown_job_has_no_history(desk: Desk) -> None:
    refused = await desk.run("history", "frame-none")
    assert refused.code == 2 and "no such job" in refused.errors
