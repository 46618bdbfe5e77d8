"""Histories read as a list of steps: each activity, its attempts, and how it ended."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.common.v1 import Payloads
from temporalio.api.enums.v1 import EventType, TimeoutType
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

COMPLETED, FAILED, TIMED_OUT = "completed", "failed", "timed out"


@dataclass
class Step:
    """One activity. Temporal records the last attempt, and the failure of the one before it."""

    name: str
    activity_id: str
    task: dict[str, Any]
    scheduled: datetime
    started: datetime | None = None
    attempts: int = 0
    worker: str = ""
    causes: list[str] = field(default_factory=list)
    """Of the last but one attempt, and of the last one if that failed."""
    ended: datetime | None = None
    outcome: str = ""
    result: dict[str, Any] = field(default_factory=dict)


@dataclass
class History:
    steps: list[Step]
    completed: bool


async def read_history(client: Client, job_id: str) -> tuple[History, int]:
    """The newest run's history, and how many runs the job has."""
    runs = [run async for run in client.list_workflows(f"WorkflowId = '{job_id}'")]
    events = [event async for event in client.get_workflow_handle(job_id).fetch_history_events()]
    completed = events[-1].event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED
    return History(steps_of(events), completed), len(runs)


def steps_of(events: Iterable[HistoryEvent]) -> list[Step]:
    steps: dict[int, Step] = {}
    for event in events:
        at = _time(event.event_time)
        match event.event_type:
            case EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
                told = event.activity_task_scheduled_event_attributes
                task = _first(told.input) or {}
                steps[event.event_id] = Step(told.activity_type.name, told.activity_id, task, at)
            case EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED:
                begun = event.activity_task_started_event_attributes
                step = steps[begun.scheduled_event_id]
                step.started, step.attempts, step.worker = at, begun.attempt, begun.identity
                if begun.HasField("last_failure"):
                    step.causes.append(cause(begun.last_failure))
            case EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
                done = event.activity_task_completed_event_attributes
                step = steps[done.scheduled_event_id]
                result = _first(done.result)
                step.outcome, step.ended = COMPLETED, at
                step.result = result if isinstance(result, dict) else {}
            case EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED:
                failed = event.activity_task_failed_event_attributes
                step = steps[failed.scheduled_event_id]
                step.outcome, step.ended = FAILED, at
                step.causes.append(cause(failed.failure))
            case EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT:
                late = event.activity_task_timed_out_event_attributes
                step = steps[late.scheduled_event_id]
                step.outcome, step.ended = TIMED_OUT, at
                step.causes.append(cause(late.failure))
    return list(steps.values())


def cause(failure: Failure) -> str:
    """An error code, or which timeout it was."""
    if failure.HasField("timeout_failure_info"):
        kind = TimeoutType.Name(failure.timeout_failure_info.timeout_type)
        return kind.removeprefix("TIMEOUT_TYPE_").lower().replace("_", " ")
    if failure.HasField("application_failure_info"):
        return failure.application_failure_info.type or failure.message
    return failure.message


def _time(stamp: Timestamp) -> datetime:
    return stamp.ToDatetime(tzinfo=UTC)


def _first(payloads: Payloads) -> Any:
    data = payloads.payloads[0].data if payloads.payloads else b""
    return json.loads(data) if data else None  # None comes without data
