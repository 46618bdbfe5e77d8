"""Pending activities: what counts as done is never more than what is there."""

from __future__ import annotations

import json
from typing import Any

from temporalio.api.enums.v1 import PendingActivityState, TimeoutType
from temporalio.api.workflow.v1 import PendingActivityInfo

from client.pending import newest_failure, pending_tiles
from contracts import ErrorCode, TileStatus

TILE = "x0000y0000w0010h0010"
BEAT = {"tile": TILE, "samples": 7, "stored": 4, "resumed": 2, "done": 700, "target": 1600}
SCHEDULED = PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
STARTED = PendingActivityState.PENDING_ACTIVITY_STATE_STARTED


def activity(
    state: PendingActivityState.ValueType, beat: dict[str, Any] | None = None, attempt: int = 1
) -> PendingActivityInfo:
    """Started at 100 s; a heartbeat of this attempt is at 101 s."""
    info = PendingActivityInfo(activity_id=f"{TILE}.1", state=state, attempt=attempt)
    info.activity_type.name = "render_tile"
    info.last_worker_identity = "worker 1"
    info.last_started_time.FromSeconds(100)
    if beat is not None:
        info.heartbeat_details.payloads.add(data=json.dumps(beat).encode())
        info.last_heartbeat_time.FromSeconds(101)
    return info


def failed(code: str, at: int, message: str = "what went wrong") -> PendingActivityInfo:
    info = activity(SCHEDULED, BEAT, attempt=3)
    info.last_failure.message = message
    info.last_failure.application_failure_info.type = code
    details = json.dumps({"attempt": 2, "worker": "worker 2"}).encode()
    info.last_failure.application_failure_info.details.payloads.add(data=details)
    info.last_attempt_complete_time.FromSeconds(at)
    return info


def test_a_tile_that_beats_has_what_it_says() -> None:
    (tile,) = pending_tiles([activity(STARTED, BEAT)])
    assert (tile.tile_id, tile.status) == (TILE, TileStatus.PROGRESSING)
    assert (tile.samples, tile.done, tile.begun, tile.lost) == (7, 700, 1, 0)


def test_a_tile_says_how_fast_it_is_and_why_its_last_attempt_failed() -> None:
    info = failed(ErrorCode.OUT_OF_MEMORY, at=90)
    info.state = STARTED
    info.heartbeat_details.payloads[0].data = json.dumps(BEAT | {"per_second": 50.5}).encode()
    (tile,) = pending_tiles([info])
    assert tile.per_second == 50.5
    assert tile.failure is not None and tile.failure.code is ErrorCode.OUT_OF_MEMORY
    document = json.loads(json.dumps(tile.document()))
    assert document["failure"]["worker"] == "worker 2" and document["beat_at"].startswith(
        "1970-01-01T00:01:41"
    )
    info.state = SCHEDULED  # it waits: nothing renders
    assert pending_tiles([info])[0].per_second == 0.0


def test_a_tile_that_waits_for_its_next_attempt_has_what_is_stored() -> None:
    (tile,) = pending_tiles([activity(SCHEDULED, BEAT, attempt=2)])
    assert tile.status is TileStatus.FAILED_RETRYABLE
    assert (tile.samples, tile.done, tile.begun, tile.lost) == (4, 400, 1, 1)


def test_an_attempt_that_has_not_beaten_yet_has_what_the_one_before_stored() -> None:
    info = activity(STARTED, BEAT, attempt=2)
    info.last_started_time.FromSeconds(102)
    (tile,) = pending_tiles([info])
    assert tile.status is TileStatus.LEASED
    assert (tile.samples, tile.done, tile.begun, tile.lost) == (4, 400, 2, 1)


def test_a_tile_in_the_queue_has_nothing() -> None:
    (tile,) = pending_tiles([activity(SCHEDULED)])
    assert tile.status is TileStatus.QUEUED
    assert (tile.tile_id, tile.done, tile.begun, tile.lost) == (TILE, 0, 0, 0)


def test_another_versions_details_are_no_reason_to_fail() -> None:
    info = activity(STARTED)
    info.heartbeat_details.payloads.add(data=b"\xff not JSON")
    assert pending_tiles([info])[0].done == 0
    other = activity(STARTED, {"doing": "loading"})
    assert pending_tiles([other])[0].done == 0


def test_other_activities_are_no_tiles() -> None:
    info = activity(STARTED, BEAT)
    info.activity_type.name = "prepare_frame"
    assert pending_tiles([info]) == []


def test_the_newest_failure_is_told_with_its_code_attempt_and_worker() -> None:
    failure = newest_failure([failed("storage_full", 200), failed("out_of_memory", 300), activity(STARTED)])
    assert failure is not None
    assert (failure.code, failure.message) == (ErrorCode.OUT_OF_MEMORY, "what went wrong")
    assert (failure.attempt, failure.worker, failure.tile_id) == (2, "worker 2", TILE)
    assert failure.at.timestamp() == 300


def test_a_silent_worker_is_a_lost_one_and_an_unknown_error_is_internal() -> None:
    silent = activity(SCHEDULED, BEAT, attempt=2)
    silent.last_failure.message = "activity Heartbeat timeout"
    silent.last_failure.timeout_failure_info.timeout_type = TimeoutType.TIMEOUT_TYPE_HEARTBEAT
    lost = newest_failure([silent])
    assert lost is not None and lost.code is ErrorCode.WORKER_LOST and lost.worker == "worker 1"
    assert lost.message.startswith("no heartbeat")
    unknown = newest_failure([failed("KeyError", 1)])
    assert unknown is not None and unknown.code is ErrorCode.INTERNAL
    assert unknown.message == "KeyError: what went wrong"
    assert newest_failure([activity(STARTED)]) is None


def test_a_lost_attempt_has_the_time_when_it_was_last_heard_of() -> None:
    """The server forgets when an attempt began that it gave up itself, and never knew when it ended."""
    silent = activity(SCHEDULED, BEAT, attempt=2)
    silent.last_failure.timeout_failure_info.SetInParent()
    silent.ClearField("last_started_time")
    lost = newest_failure([silent])
    assert lost is not None and lost.at.timestamp() == 101
    silent.ClearField("last_heartbeat_time")
    silent.scheduled_time.FromSeconds(112)
    lost = newest_failure([silent])
    assert lost is not None and lost.at.timestamp() == 112


def test_an_activity_that_was_stopped_has_not_failed() -> None:
    cancelled = activity(SCHEDULED, attempt=2)
    cancelled.last_failure.canceled_failure_info.SetInParent()
    assert newest_failure([cancelled]) is None
