"""The truth about a job: the workflow's own answer, what its running tiles report, or the store's records."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import (
    Client,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowQueryFailedError,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from client.errors import BadInput
from client.submit import key_of, published, status_of
from contracts import ErrorCode, Failure, FrameRequest, FrameStatus, JobStatus
from store import NotFound, Store, layout
from workflows import attributes, queues

QUERY_TIMEOUT = timedelta(seconds=4)
"""A query needs a control worker; without one the search attributes answer."""

CLOSED = {
    WorkflowExecutionStatus.COMPLETED: FrameStatus.COMPLETED,
    WorkflowExecutionStatus.FAILED: FrameStatus.FAILED_TERMINAL,
    WorkflowExecutionStatus.TIMED_OUT: FrameStatus.FAILED_TERMINAL,
    WorkflowExecutionStatus.CANCELED: FrameStatus.CANCELLED,
    WorkflowExecutionStatus.TERMINATED: FrameStatus.CANCELLED,
}


async def job_status(client: Client | None, store: Store, job_id: str) -> JobStatus:
    """Raises BadInput for a job that neither Temporal nor the store knows, RPCError when Temporal is away.

    client None: the store alone is asked.
    """
    description = None
    if client is not None:
        try:
            description = await client.get_workflow_handle(job_id).describe(rpc_timeout=timedelta(seconds=10))
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
    if description is None or client is None:
        return _from_store(store, job_id)
    status = await _queried(client, description)
    if description.status is not WorkflowExecutionStatus.RUNNING:
        return await _closed(client, store, description, status)
    return await _running(client, description, status)


def _from_store(store: Store, job_id: str) -> JobStatus:
    try:
        manifest = published(store, job_id)
        if manifest is not None:
            return status_of(manifest, fresh=False)
        data, stat = store.get(layout.job(job_id))
    except (NotFound, ValueError) as error:
        raise BadInput(f"{job_id}: no such job; see `tessera list`") from error
    request = FrameRequest.model_validate_json(data)
    return JobStatus(
        job_id=job_id,
        idempotency_key=request.idempotency_key,
        status=FrameStatus.CANCELLED,
        frame=request.frame_number,
        created_at=stat.modified,
        updated_at=stat.modified,
        note="Temporal does not know this job any more and nothing is published: submit again to go on",
    )


async def _queried(client: Client, description: WorkflowExecutionDescription) -> JobStatus:
    handle = client.get_workflow_handle(description.id, run_id=description.run_id)
    try:
        status: JobStatus = await handle.query("status", result_type=JobStatus, rpc_timeout=QUERY_TIMEOUT)
    except (RPCError, WorkflowQueryFailedError):
        return await _from_attributes(description)
    return status


async def _from_attributes(description: WorkflowExecutionDescription) -> JobStatus:
    found = description.typed_search_attributes
    shown = found.get(attributes.STATUS)
    return JobStatus(
        job_id=description.id,
        idempotency_key=await key_of(description),
        status=FrameStatus(shown) if shown else FrameStatus.QUEUED,
        frame=found.get(attributes.FRAME) or 1,
        progress=found.get(attributes.PROGRESS) or 0.0,
        created_at=description.start_time,
        updated_at=datetime.now(UTC),
        note="no control worker answers: start one with `python -m worker --role control`",
    )


async def _closed(
    client: Client, store: Store, description: WorkflowExecutionDescription, status: JobStatus
) -> JobStatus:
    ended = CLOSED.get(description.status or WorkflowExecutionStatus.FAILED, status.status)
    updates: dict[str, Any] = {"status": ended, "note": None}
    if description.close_time is not None:
        updates["updated_at"] = description.close_time
    if ended is FrameStatus.COMPLETED:
        manifest = published(store, description.id)
        if manifest is None:
            updates["note"] = "its manifest is gone from the store: submit again to render it again"
        elif status.result is None:
            return status_of(manifest, fresh=False)
    elif status.error is None and ended is FrameStatus.FAILED_TERMINAL:
        updates["error"] = await _failure(client, description)
    return status.model_copy(update=updates)


async def _failure(client: Client, description: WorkflowExecutionDescription) -> Failure:
    """Why a closed workflow failed, from its history: no worker is needed for that."""
    handle = client.get_workflow_handle(description.id, run_id=description.run_id)
    message = f"the workflow ended as {description.status.name if description.status else 'unknown'}"
    try:
        await handle.result(rpc_timeout=QUERY_TIMEOUT)
    except WorkflowFailureError as error:
        cause = error.cause
        if isinstance(cause, ApplicationError) and cause.details:
            return Failure.model_validate(cause.details[0])
        message = f"{message}: {cause}"
    at = description.close_time or datetime.now(UTC)
    return Failure(code=ErrorCode.INTERNAL, message=message, at=at)


async def _running(client: Client, description: WorkflowExecutionDescription, status: JobStatus) -> JobStatus:
    """Adds what running tiles have reported since: progress moves by samples, not by tiles."""
    done = 0
    for activity in description.raw_description.pending_activities:
        for payload in activity.heartbeat_details.payloads:
            details = _decoded(payload.data)
            done += int(details.get("done", 0)) if activity.activity_type.name == "render_tile" else 0
    updates: dict[str, Any] = {}
    samples = status.samples
    if samples.target:
        finished = samples.rendered + samples.resumed
        updates["progress"] = max(status.progress, min(0.999, (finished + done) / samples.target))
    if status.engine and status.status in (FrameStatus.RUNNING, FrameStatus.PROGRESSING):
        if not await has_workers(client, queues.tiles(status.engine)):
            updates["note"] = f"no worker of engine {status.engine} is polling"
    elif status.status is FrameStatus.QUEUED and not await has_workers(client, queues.SERVICE):
        updates["note"] = "no tile worker is polling: start one with `python -m worker --role tiles`"
    return status.model_copy(update=updates)


def _decoded(data: bytes) -> dict[str, Any]:
    try:
        details = json.loads(data)
    except ValueError:
        return {}
    return details if isinstance(details, dict) else {}


async def has_workers(client: Client, queue: str) -> bool:
    """Whether any worker has polled the queue within the server's last minutes."""
    answer = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=client.namespace,
            task_queue=TaskQueue(name=queue),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
        )
    )
    return len(answer.pollers) > 0
