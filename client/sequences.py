"""A sequence's workflow and its record: starting it, and the truth about it from Temporal or the store.

The record sequences/<job_id>.json says what the sequence was asked to be. It answers when Temporal has
forgotten, and keeps `tessera gc` from what frames need that have not begun.
"""

from __future__ import annotations

import sys
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
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from client.errors import Unreachable
from client.presence import NOBODY, has_workers
from client.published import conflict, damaged
from client.status import QUERY_TIMEOUT, describe, silence
from client.submit import END_SECONDS, RPC_TIMEOUT, is_being_cancelled, key_of, wait_for_end
from contracts import FrameCounts, SequenceReport, SequenceRequest, SequenceRun, SequenceStatus
from store import NotFound, Store, layout
from store.blobs import put_record
from workflows import attributes, queues
from workflows.launch import sequence_launch
from workflows.tiling import to_ranges

WORKFLOW = "SequenceWorkflow"

CLOSED = {
    WorkflowExecutionStatus.COMPLETED: SequenceStatus.COMPLETED,
    WorkflowExecutionStatus.CANCELED: SequenceStatus.CANCELLED,
    WorkflowExecutionStatus.TERMINATED: SequenceStatus.CANCELLED,
}
"""All other ways to close are failures."""


def record(store: Store, request: SequenceRequest) -> None:
    """Writes the sequence's record, or makes the one that is there young. Raises BadInput where its name is
    another sequence's, StoreError."""
    key = layout.sequence(request.job_id)
    data = put_record(store, key, request.model_dump_json(indent=1).encode())
    if decode(key, data).idempotency_key != request.idempotency_key:
        raise conflict(request.job_id)


def recorded(store: Store, job_id: str) -> SequenceRequest | None:
    key = layout.sequence(job_id)
    try:
        return decode(key, store.get(key)[0])
    except NotFound:
        return None


def decode(key: str, data: bytes) -> SequenceRequest:
    """Raises Unreachable where the record is damaged."""
    try:
        return SequenceRequest.model_validate_json(data)
    except ValueError as error:
        raise damaged(key, error) from error


async def start(client: Client, request: SequenceRequest, approved: bool = False) -> None:
    """Starts the workflow or attaches to the one that runs. approved: no frame waits for an approval.

    Raises BadInput where the name belongs to another sequence, Unreachable where a cancelled run does not
    end, RPCError.
    """
    launch = sequence_launch(request)
    while True:
        await client.start_workflow(
            WORKFLOW,
            SequenceRun(request=request, created_at=datetime.now(UTC), approved=approved),
            id=request.job_id,
            task_queue=queues.CONTROL,
            # Also after a completed run: a sequence whose frames are all published is never started.
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            memo=launch.memo,
            search_attributes=launch.search_attributes,
            static_summary=launch.static_summary,
            static_details=launch.static_details,
            priority=launch.priority,
            rpc_timeout=RPC_TIMEOUT,
        )
        seen = await client.get_workflow_handle(request.job_id).describe(rpc_timeout=RPC_TIMEOUT)
        if await key_of(seen) != request.idempotency_key:
            raise conflict(request.job_id)
        if not is_being_cancelled(seen):
            return
        print(f"{seen.id} is just being cancelled: waiting for its end to start it again", file=sys.stderr)
        if not await wait_for_end(client, seen):
            raise Unreachable(f"{seen.id} is being cancelled and has not ended within {END_SECONDS:.0f} s")


async def report(
    client: Client, store: Store, job_id: str, patience: timedelta = QUERY_TIMEOUT
) -> SequenceReport | None:
    """None for a sequence that nobody knows. Raises RPCError, StoreError, Unreachable.

    patience: how long the workflow itself may take to answer.
    """
    answer = await _answer(client, job_id, patience)
    seen = await describe(client, job_id)
    if seen is None:
        return stored_report(store, job_id)
    if seen.status is WorkflowExecutionStatus.RUNNING:
        known = _running(store, seen, answer)
        waits = known is not None and known.note is None and known.status is SequenceStatus.RUNNING
        if waits and not await has_workers(client, queues.SERVICE):
            return known and known.model_copy(update={"note": NOBODY})
        return known
    ended = CLOSED.get(seen.status or WorkflowExecutionStatus.FAILED, SequenceStatus.FAILED_TERMINAL)
    answer = answer or await _result(client, seen) or stored_report(store, job_id)
    updates: dict[str, Any] = {"status": ended, "running": (), "note": None}
    if answer is not None and answer.frames.running:  # terminated: nobody looks after its frames any more
        counts = answer.frames
        waiting = counts.waiting + counts.running
        updates["frames"] = counts.model_copy(update={"running": 0, "waiting": waiting})
    return answer and answer.model_copy(update=updates)


async def _answer(client: Client, job_id: str, patience: timedelta) -> SequenceReport | None:
    """The workflow's own answer; None where no worker gives one, or there is no such workflow."""
    handle = client.get_workflow_handle(job_id)
    try:
        answer: SequenceReport = await handle.query(
            "status", result_type=SequenceReport, rpc_timeout=patience
        )
        return answer
    except (RPCError, WorkflowQueryFailedError, WorkflowQueryRejectedError):
        return None


async def _result(client: Client, seen: WorkflowExecutionDescription) -> SequenceReport | None:
    """What the run ended with, from its history, without a worker. None where it was cancelled."""
    handle = client.get_workflow_handle(seen.id, run_id=seen.run_id, result_type=SequenceReport)
    try:
        ended: SequenceReport = await handle.result(rpc_timeout=RPC_TIMEOUT)
        return ended
    except WorkflowFailureError as error:
        cause = error.cause
        if isinstance(cause, ApplicationError) and cause.details:
            return SequenceReport.model_validate(cause.details[0])
        return None


def _running(
    store: Store, seen: WorkflowExecutionDescription, answer: SequenceReport | None
) -> SequenceReport | None:
    cancel = "being cancelled: it ends when its running frames have stopped"
    if answer is not None:
        return answer.model_copy(update={"note": cancel}) if is_being_cancelled(seen) else answer
    known = stored_report(store, seen.id)
    if known is None:
        return None
    status = seen.typed_search_attributes.get(attributes.STATUS) or SequenceStatus.RUNNING
    return known.model_copy(update={"status": SequenceStatus(status), "note": silence(seen)})


def stored_report(store: Store, job_id: str) -> SequenceReport | None:
    """What the store alone knows: which frames are published. None where it knows no such sequence."""
    request, stat = recorded(store, job_id), store.stat(layout.sequence(job_id))
    if request is None or stat is None:
        return None
    numbers = request.numbers
    published = published_numbers(store, request)
    whole = len(published) == len(numbers)
    return SequenceReport(
        job_id=job_id,
        idempotency_key=request.idempotency_key,
        status=SequenceStatus.COMPLETED if whole else SequenceStatus.CANCELLED,
        progress=len(published) / len(numbers),
        frames=FrameCounts(
            total=len(numbers), published=len(published), waiting=len(numbers) - len(published)
        ),
        published=to_ranges(published),
        created_at=stat.modified,
        updated_at=stat.modified,
        note=None if whole else "Temporal does not know this sequence (any more): submit it again to go on",
    )


def published_numbers(store: Store, request: SequenceRequest) -> list[int]:
    """Which of the frames have a manifest."""
    there = (n for n in request.numbers if store.stat(layout.manifest(request.frame(n).job_id)) is not None)
    return list(there)
