"""What the frame's pending activities tell: tiles that render right now, and failures being retried."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.enums.v1 import PendingActivityState, TimeoutType
from temporalio.api.failure.v1 import Failure as FailureProto
from temporalio.api.workflow.v1 import PendingActivityInfo

from client.published import tile_area
from contracts import ErrorCode, Failure, TileStatus

_WAITING = (
    PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED,
    PendingActivityState.PENDING_ACTIVITY_STATE_PAUSED,
)


class PendingTile(NamedTuple):
    """One render_tile activity that has not ended. A cheap one has more tiles than the one named here."""

    tile_id: str
    status: TileStatus
    samples: int
    """Samples a pixel that the tile has."""
    done: int
    """Samples of the whole activity (pixels times samples a pixel), those from checkpoints included."""
    begun: int
    """Attempts that have begun."""
    lost: int
    """Attempts that have ended without a result."""
    worker: str
    resumed: int
    """Samples a pixel that the attempt took from a checkpoint."""
    per_second: float = 0.0
    """Samples (pixels times samples a pixel) a second of the last minute."""
    beat_at: datetime | None = None
    """When its worker was last heard of."""
    failure: Failure | None = None
    """Why its last attempt ended."""

    def document(self) -> dict[str, Any]:
        """For --json."""
        failure, beat_at = self.failure, self.beat_at
        return self._asdict() | {
            "beat_at": beat_at.isoformat() if beat_at else None,
            "failure": failure.model_dump(mode="json") if failure else None,
        }


def pending_tiles(activities: Iterable[PendingActivityInfo]) -> list[PendingTile]:
    return [_tile(activity) for activity in activities if activity.activity_type.name == "render_tile"]


def newest_failure(activities: Iterable[PendingActivityInfo]) -> Failure | None:
    """The last failure among the activities that are being tried again. A worker's leaving is none."""
    failures = [_failure(activity) for activity in activities if _has_failed(activity)]
    return max(failures, key=lambda failure: failure.at, default=None)


def _tile(activity: PendingActivityInfo) -> PendingTile:
    waits = activity.state in _WAITING
    details = _decoded(p.data for p in activity.heartbeat_details.payloads)
    tile_id = str(details.get("tile", activity.activity_id.split(".")[0]))
    samples, done = int(details.get("samples", 0)), int(details.get("done", 0))
    # The details outlive their attempt. What it had beyond its checkpoint may be lost with its worker.
    beats = activity.last_heartbeat_time.ToNanoseconds() > activity.last_started_time.ToNanoseconds()
    if waits or not beats:
        stored = int(details.get("stored", 0))
        done, samples = done - (samples - stored) * tile_area(tile_id), stored
    if waits:
        status = TileStatus.QUEUED if activity.attempt <= 1 else TileStatus.FAILED_RETRYABLE
    else:
        status = TileStatus.PROGRESSING if beats and "samples" in details else TileStatus.LEASED
    return PendingTile(
        tile_id=tile_id,
        status=status,
        samples=samples,
        done=done,
        begun=activity.attempt - waits,
        lost=activity.attempt - 1,
        worker=activity.last_worker_identity,
        resumed=int(details.get("resumed", 0)) if beats else 0,
        per_second=float(details.get("per_second", 0.0)) if status is TileStatus.PROGRESSING else 0.0,
        beat_at=activity.last_heartbeat_time.ToDatetime(tzinfo=UTC) if beats else None,
        failure=_failure(activity) if _has_failed(activity) else None,
    )


def _has_failed(activity: PendingActivityInfo) -> bool:
    stopped = activity.last_failure.HasField("canceled_failure_info")
    return activity.HasField("last_failure") and not stopped


def _failure(activity: PendingActivityInfo) -> Failure:
    failure = activity.last_failure
    code, message, attempt, worker = (
        ErrorCode.INTERNAL,
        failure.message,
        activity.attempt - 1,
        activity.last_worker_identity,
    )
    if failure.HasField("timeout_failure_info"):
        code = ErrorCode.WORKER_LOST
        if failure.timeout_failure_info.timeout_type == TimeoutType.TIMEOUT_TYPE_HEARTBEAT:
            message = "no heartbeat: the worker ended, stalled or was cut off"
    elif failure.HasField("application_failure_info"):
        kind = failure.application_failure_info.type
        known = kind in set(ErrorCode)
        code = ErrorCode(kind) if known else ErrorCode.INTERNAL
        message = failure.message if known else f"{kind}: {failure.message}"
        kept = _details_of(failure)
        attempt, worker = int(kept.get("attempt", attempt)), str(kept.get("worker", worker))
    return Failure(
        code=code,
        message=message,
        attempt=max(1, attempt),
        worker=worker,
        at=_failed_at(activity),
        tile_id=activity.activity_id.split(".")[0] if activity.activity_type.name == "render_tile" else None,
    )


def _failed_at(activity: PendingActivityInfo) -> datetime:
    """When the last attempt ended; of a lost one, when it was last heard of. The server forgets the times of
    an attempt that it gave up itself."""
    for name in ("last_attempt_complete_time", "last_heartbeat_time", "last_started_time"):
        if activity.HasField(name):
            known: Timestamp = getattr(activity, name)
            return known.ToDatetime(tzinfo=UTC)
    return activity.scheduled_time.ToDatetime(tzinfo=UTC)


def _details_of(failure: FailureProto) -> dict[str, Any]:
    return _decoded(p.data for p in failure.application_failure_info.details.payloads)


def _decoded(payloads: Iterable[bytes]) -> dict[str, Any]:
    """The first payload, if it is a JSON object: another version's details are no reason to fail."""
    for data in payloads:
        try:
            details = json.loads(data)
        except ValueError:
            break
        return details if isinstance(details, dict) else {}
    return {}
