"""From the events of one run's history to what happened, in words."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType, PendingActivityState
from temporalio.api.failure.v1 import Failure as FailureProto
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.converter import DataConverter

from client.history import Entry, past_entries, past_entry

ACTIVITY_STEPS = {"prepare_frame": "prepare", "finalize_frame": "finalize"}
"""Shown beside the tiles; the other steps are the workflow's own bookkeeping."""


@dataclass
class Scheduled:
    """An activity of the run."""

    name: str
    """The tiles' ids, or the step."""
    is_tile: bool
    attempt: int = 1
    worker: str = ""
    began: datetime | None = None
    last_failure: FailureProto | None = None
    """Of the attempt before."""


class RunHistory:
    """Reads the events of one run in their order."""

    def __init__(self, converter: DataConverter) -> None:
        self._converter = converter
        self._activities: dict[int, Scheduled] = {}

    async def read(self, event: HistoryEvent) -> list[Entry]:
        """What the event tells: most tell nothing of their own."""
        at = moment(event.event_time)
        match event.event_type:
            case EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
                await self._scheduled(event)
            case EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED:
                started = event.activity_task_started_event_attributes
                found = self._activities.get(started.scheduled_event_id)
                if found is not None:
                    found.attempt, found.worker, found.began = started.attempt, started.identity, at
                    found.last_failure = started.last_failure if started.HasField("last_failure") else None
            case EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
                done = event.activity_task_completed_event_attributes
                return await self._completed(done.scheduled_event_id, at, done.result.payloads)
            case EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED:
                failed = event.activity_task_failed_event_attributes
                return await self._failed(failed.scheduled_event_id, at, failed.failure)
            case EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT:
                timed_out = event.activity_task_timed_out_event_attributes
                return await self._failed(timed_out.scheduled_event_id, at, timed_out.failure)
            case EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED:
                cancelled = event.activity_task_canceled_event_attributes.scheduled_event_id
                return self._ended(cancelled, at, "stopped: paused or cancelled", None)
            case _:
                said = of_workflow(event)
                return [Entry(at, said)] if said is not None else []
        return []

    async def _scheduled(self, event: HistoryEvent) -> None:
        scheduled = event.activity_task_scheduled_event_attributes
        kind = scheduled.activity_type.name
        if kind == "render_tile":
            (task,) = await self._values(scheduled.input.payloads)
            tiles = [f"x{t['x']:04d}y{t['y']:04d}w{t['width']:04d}h{t['height']:04d}" for t in task["tiles"]]
            self._activities[event.event_id] = Scheduled(" ".join(tiles), True)
        elif kind in ACTIVITY_STEPS:
            self._activities[event.event_id] = Scheduled(ACTIVITY_STEPS[kind], False)

    async def _completed(self, number: int, at: datetime, payloads: Sequence[Payload]) -> list[Entry]:
        found = self._activities.get(number)
        if found is None or not found.is_tile:
            return self._ended(number, at, "done", None)
        (result,) = await self._values(payloads)
        past = past_entries(found.name, result.get("past", ()))
        ended = self._ended(number, at, str(result.get("outcome")), result.get("rendered"))
        return [*self._with_reason(past, found), *ended]

    async def _failed(self, number: int, at: datetime, failure: FailureProto) -> list[Entry]:
        """The last attempt of a round. Those before it are told by its failure's details, or by its last
        heartbeat where it was lost."""
        found = self._activities.get(number)
        if found is None:
            return []
        if failure.HasField("timeout_failure_info"):
            payloads = failure.timeout_failure_info.last_heartbeat_details.payloads
        else:
            payloads = failure.application_failure_info.details.payloads
        values = await self._values(payloads)
        said = values[0] if values and isinstance(values[0], dict) else {}
        past = self._with_reason(past_entries(found.name, said.get("past", ())), found)
        if "since" in said and said.get("attempt") == found.attempt:
            return [*past, past_entry(found.name, said, reason(failure))]
        return [*past, *self._ended(number, at, reason(failure), None)]

    def _with_reason(self, past: list[Entry], found: Scheduled) -> list[Entry]:
        """Temporal knows exactly why the last but one attempt ended."""
        if found.last_failure is not None and past and past[-1].attempt == found.attempt - 1:
            _, separator, lost = past[-1].what.partition(";")
            past[-1].what = reason(found.last_failure) + separator + lost
        return past

    def _ended(self, number: int, at: datetime, why: str, samples: int | None) -> list[Entry]:
        found = self._activities.get(number)
        if found is None or found.began is None:
            return []
        seconds = (at - found.began).total_seconds()
        return [Entry(found.began, why, found.name, found.attempt, found.worker, seconds, samples)]

    async def _values(self, payloads: Sequence[Payload]) -> list[Any]:
        return await self._converter.decode(payloads)


def of_workflow(event: HistoryEvent) -> str | None:
    """What happened to the whole frame; None for what nobody asks about."""
    match event.event_type:
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
            started = event.workflow_execution_started_event_attributes
            return "goes on in a new run" if started.continued_execution_run_id else "run started"
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
            signal = event.workflow_execution_signaled_event_attributes
            return f"signal {signal.signal_name}" + (f" from {signal.identity}" if signal.identity else "")
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED:
            asked = event.workflow_execution_update_accepted_event_attributes.accepted_request
            return f"update {asked.input.name}"
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED:
            return "cancel requested"
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
            return "completed"
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED:
            return "cancelled"
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
            return f"terminated: {event.workflow_execution_terminated_event_attributes.reason or 'no reason'}"
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
            return f"failed: {reason(event.workflow_execution_failed_event_attributes.failure)}"
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
            return "the history is long"
    return None


def running_attempts(activities: Iterable[PendingActivityInfo]) -> list[Entry]:
    """Attempts that have not ended, and those before them in the same activity."""
    entries = []
    for activity in activities:
        if activity.activity_type.name != "render_tile":
            continue
        name = activity.activity_id.split(".")[0]
        details = [payload.data for payload in activity.heartbeat_details.payloads]
        said = json.loads(details[0]) if details else {}
        past = past_entries(name, said.get("past", ()))
        started = activity.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED
        if "since" in said and not (started and said.get("attempt") == activity.attempt):
            past.append(past_entry(name, said))
        if activity.HasField("last_failure") and past and past[-1].attempt == activity.attempt - 1:
            past[-1].what = reason(activity.last_failure)
        entries += past
        if started:
            began = moment(activity.last_started_time)
            own = said if said.get("attempt") == activity.attempt else {}
            samples = past_entry(name, own).samples if "since" in own else None
            worker = activity.last_worker_identity
            entries.append(Entry(began, "running", name, activity.attempt, worker, None, samples))
    return entries


def reason(failure: FailureProto) -> str:
    if failure.HasField("timeout_failure_info"):
        return "worker_lost: no heartbeat"
    kind = failure.application_failure_info.type
    return f"{kind}: {failure.message}" if kind else failure.message


def moment(stamp: Timestamp) -> datetime:
    return stamp.ToDatetime(tzinfo=UTC)
