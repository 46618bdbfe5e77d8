"""The truth about a job: the workflow's own answer, what its running tiles report, or the store's records."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio.client import (
    Client,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from client.pending import PendingTile, newest_failure, pending_tiles
from client.presence import lease_of, nobody_note
from client.progress import Progress
from client.published import damaged, published, recorded, status_of
from client.submit import RPC_TIMEOUT, is_being_cancelled, key_of
from codec import decoded
from contracts import DeadLetter, ErrorCode, Failure, FrameStatus, JobStatus, TileStatus
from store import NotFound, Store, layout
from workflows import attributes

QUERY_TIMEOUT = timedelta(seconds=4)
"""A query needs a control worker; without one the search attributes answer."""
FAILING_ATTEMPTS = 2
"""A lost control worker costs a workflow task an attempt or two; more are a fault of its code."""
CLOSED = {
    WorkflowExecutionStatus.COMPLETED: FrameStatus.COMPLETED,
    WorkflowExecutionStatus.CANCELED: FrameStatus.CANCELLED,
    WorkflowExecutionStatus.TERMINATED: FrameStatus.CANCELLED,
}
"""All other ways to close are failures."""


async def job_status(
    client: Client,
    store: Store,
    job_id: str,
    patience: timedelta | None = QUERY_TIMEOUT,
    progress: Progress | None = None,
) -> JobStatus | None:
    """None for a job that neither Temporal nor the store knows. Raises RPCError, StoreError, Unreachable.

    patience: how long the workflow itself may take to answer; None: it is not asked. progress: what the same
    command's earlier looks have learned.
    """
    # In this order: a tile that ends in between is counted by neither. The other way round it would be
    # counted twice, and progress must not be above the truth.
    answer = await _answer(client, job_id, patience) if patience is not None else None
    description = await describe(client, job_id)
    if description is None:
        return recorded(store, job_id)
    progress = progress or Progress(store, job_id)
    status = answer or await _from_attributes(store, description)
    if description.status is not WorkflowExecutionStatus.RUNNING:
        return await _closed(client, store, description, progress, status)
    return await _running(client, store, description, progress, status)


async def _answer(client: Client, job_id: str, patience: timedelta) -> JobStatus | None:
    """The workflow's own answer; None where no worker gives one, or there is no such workflow."""
    handle = client.get_workflow_handle(job_id)
    try:
        status: JobStatus = await handle.query("status", result_type=JobStatus, rpc_timeout=patience)
        return status
    except (RPCError, WorkflowQueryFailedError, WorkflowQueryRejectedError):
        return None


async def describe(client: Client, job_id: str) -> WorkflowExecutionDescription | None:
    """None where Temporal does not know the job."""
    try:
        description = await client.get_workflow_handle(job_id).describe(rpc_timeout=RPC_TIMEOUT)
    except RPCError as error:
        # A server that is just starting does not know its namespaces yet: that says nothing of the job.
        if error.status is RPCStatusCode.NOT_FOUND and "namespace" not in error.message.lower():
            return None
        raise
    # Heartbeats and failures of running activities are read from the raw answer.
    description.raw_description = await decoded(description.raw_description, client.data_converter)
    return description


async def tiles_in_flight(client: Client, job_id: str) -> list[PendingTile]:
    """The tiles that are with workers, wait for one, or wait to be tried again."""
    description = await describe(client, job_id)
    return pending_tiles(description.raw_description.pending_activities) if description else []


async def _from_attributes(store: Store, description: WorkflowExecutionDescription) -> JobStatus:
    """What the search attributes say."""
    found = description.typed_search_attributes
    shown = FrameStatus(found.get(attributes.STATUS) or FrameStatus.QUEUED)
    return JobStatus(
        job_id=description.id,
        idempotency_key=await key_of(description),
        status=shown,
        frame=found.get(attributes.FRAME) or 1,
        progress=found.get(attributes.PROGRESS) or 0.0,
        error=_dead_letter(store, description.id) if shown is FrameStatus.DEAD_LETTERED else None,
        created_at=description.start_time,
        updated_at=datetime.now(UTC),
        note=silence(description),
    )


def silence(description: WorkflowExecutionDescription) -> str:
    """Why the workflow does not answer."""
    failing = description.raw_description.pending_workflow_task.attempt
    if failing > FAILING_ATTEMPTS:
        return (
            f"the workflow itself fails, attempt {failing}: its control worker may be of another version "
            "than the one that began it, or lack an encryption key; see the Web UI"
        )
    return "no control worker answers yet"


def _dead_letter(store: Store, job_id: str) -> Failure | None:
    try:
        data, _ = store.get(layout.dead_letter(job_id))
        return DeadLetter.model_validate_json(data).failures[-1]
    except NotFound:
        return None
    except ValueError as error:
        raise damaged(layout.dead_letter(job_id), error) from error


async def _closed(
    client: Client,
    store: Store,
    description: WorkflowExecutionDescription,
    progress: Progress,
    status: JobStatus,
) -> JobStatus:
    ended = CLOSED.get(description.status or WorkflowExecutionStatus.FAILED, FrameStatus.FAILED_TERMINAL)
    updates: dict[str, Any] = {"status": ended, "note": None}
    if description.close_time is not None:
        updates["updated_at"] = description.close_time
    manifest = published(store, description.id)
    if manifest is not None and ended is not FrameStatus.COMPLETED:
        return status_of(manifest)  # the cancel came after the commit: the picture is there
    if ended is FrameStatus.COMPLETED:
        if manifest is not None:
            # The workflow's answer where there is one: it also has what was lost and tried again.
            return status.model_copy(update=updates) if status.result else status_of(manifest)
        updates["note"] = "its manifest is gone from the store: submit again to render it again"
        updates["result"] = None
    else:
        status = progress.of_ended(status)
        explained = status.error is not None and status.error.code.is_terminal
        if ended is FrameStatus.FAILED_TERMINAL and not explained:
            updates["error"] = await _failure(client, description)
    return status.model_copy(update=updates)


async def _failure(client: Client, description: WorkflowExecutionDescription) -> Failure:
    """Why a closed workflow failed, from its history: no worker is needed for that."""
    handle = client.get_workflow_handle(description.id, run_id=description.run_id)
    message = f"the workflow ended as {description.status.name if description.status else 'unknown'}"
    try:
        await handle.result(rpc_timeout=RPC_TIMEOUT)
    except WorkflowFailureError as error:
        cause = error.cause
        if isinstance(cause, ApplicationError) and cause.details:
            return Failure.model_validate(cause.details[0])
        message = f"{message}: {cause}"
    at = description.close_time or datetime.now(UTC)
    return Failure(code=ErrorCode.INTERNAL, message=message, at=at)


async def _running(
    client: Client,
    store: Store,
    description: WorkflowExecutionDescription,
    progress: Progress,
    status: JobStatus,
) -> JobStatus:
    """Adds what running tiles have reported since: progress moves by samples, not by tiles."""
    activities = description.raw_description.pending_activities
    tiles = pending_tiles(activities)
    status = progress.complete(status, tiles)
    at_work = sum(t.status in (TileStatus.LEASED, TileStatus.PROGRESSING) for t in tiles)
    attempts, rate = status.attempts, sum(t.per_second for t in tiles)
    updates: dict[str, Any] = {
        "samples_per_second": rate,
        "seconds_left": (1.0 - status.progress) * status.samples.target / rate if rate > 0 else None,
        "tiles": status.tiles.model_copy(update={"running": at_work}),
        "attempts": attempts.model_copy(
            update={
                "total": attempts.total + sum(t.begun for t in tiles),
                "lost": attempts.lost + sum(t.lost for t in tiles),
            }
        ),
        "error": newest_failure(activities) or status.error,
        "note": await nobody_note(client, status, at_work),
    }
    if is_being_cancelled(description) and not status.status.is_final:
        why = f"; {updates['note']}" if updates["note"] else ""
        updates["note"] = f"being cancelled: it ends when its running tiles have stopped{why}"
    if status.status is FrameStatus.FINALIZING:
        updates["lease"] = lease_of(store, description.id)
    return status.model_copy(update=updates)
