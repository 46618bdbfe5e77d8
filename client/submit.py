"""Starting a frame's workflow: its name is its identity, so a second start attaches to the first.

A start of work that is running attaches to it; of work that failed or was cancelled starts again, and goes
on from the films that are there; of work that is just being cancelled waits for its end and starts again; of
work that Temporal calls completed but whose manifest is gone starts again and says so.
"""

from __future__ import annotations

import asyncio
import sys
import time
from datetime import UTC, datetime, timedelta

from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from client.errors import Unreachable
from client.published import conflict, damaged, published
from contracts import FramePlan, FrameRequest, FrameRun
from store import NotFound, Store, layout
from tracer import engine
from workflows import queues
from workflows.launch import KEY_MEMO, frame_launch

WORKFLOW = "FrameWorkflow"
RPC_TIMEOUT = timedelta(seconds=10)
END_SECONDS = 60.0
"""How long a run that is being cancelled may take to end. Its tiles stop within seconds; a worker that was
killed just then counts as lost after its heartbeat timeout (workflows/policies.py)."""
END_POLL_SECONDS = 0.1


async def start(client: Client, store: Store, request: FrameRequest) -> str | None:
    """Starts the workflow or attaches to the one that runs. Returns a note for the person, or None.

    Raises BadInput where the name belongs to another frame, Unreachable where a cancelled run does not end,
    RPCError.
    """
    note = _tile_note(store, request)
    job_id = request.job_id
    while True:
        try:
            await _start(client, request, WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY)
        except WorkflowAlreadyStartedError:
            # It completed: between our look at the store and now, or its manifest is gone since.
            if published(store, job_id, request.idempotency_key) is not None:
                return None
            await _start(client, request, WorkflowIDReusePolicy.ALLOW_DUPLICATE)
            note = "Temporal calls this frame completed, but its manifest is gone: rendering again"
        description = await client.get_workflow_handle(job_id).describe(rpc_timeout=RPC_TIMEOUT)
        if await key_of(description) != request.idempotency_key:
            raise conflict(job_id)
        if not is_being_cancelled(description):
            return note
        # Attached to a run that somebody has cancelled: it would end without a picture.
        print(f"{job_id} is just being cancelled: waiting for its end to start it again", file=sys.stderr)
        if not await wait_for_end(client, description):
            raise Unreachable(
                f"{job_id} is being cancelled and has not ended within {END_SECONDS:.0f} s: is any worker "
                "there? Submit it again when `tessera status` says cancelled"
            )


def is_being_cancelled(description: WorkflowExecutionDescription) -> bool:
    """Whether somebody has asked for a cancel of a run that has not ended."""
    asked = description.raw_description.workflow_extended_info.cancel_requested
    return description.status is WorkflowExecutionStatus.RUNNING and asked


async def wait_for_end(client: Client, seen: WorkflowExecutionDescription) -> bool:
    """Whether the run ends within END_SECONDS. It may also go on as a new run of the chain: that one has to
    end. Raises RPCError."""
    until = time.monotonic() + END_SECONDS
    chain = seen.raw_description.workflow_execution_info.first_run_id
    while time.monotonic() < until:
        now = await client.get_workflow_handle(seen.id).describe(rpc_timeout=RPC_TIMEOUT)
        same = now.raw_description.workflow_execution_info.first_run_id == chain
        if now.status is not WorkflowExecutionStatus.RUNNING or not same:
            return True
        await asyncio.sleep(END_POLL_SECONDS)
    return False


async def key_of(description: WorkflowExecutionDescription) -> str:
    return str(await description.memo_value(KEY_MEMO, ""))


def _tile_note(store: Store, request: FrameRequest) -> str | None:
    """Says that a stored plan wins over --tile. Quiet where the workers' engine is not the client's."""
    if request.tile_size is None:
        return None
    place = layout.plan(request.sample_key(engine.fingerprint()))
    try:
        data, _ = store.get(place)
        stored = FramePlan.model_validate_json(data).tile_size
    except NotFound:
        return None
    except ValueError as error:
        raise damaged(place, error) from error
    if stored == request.tile_size:
        return None
    return f"--tile is ignored: this frame's films are in tiles of {stored} pixels already, and they are kept"


async def _start(client: Client, request: FrameRequest, reuse: WorkflowIDReusePolicy) -> None:
    launch = frame_launch(request)
    await client.start_workflow(
        WORKFLOW,
        FrameRun(request=request, created_at=datetime.now(UTC)),
        id=request.job_id,
        task_queue=queues.CONTROL,
        id_reuse_policy=reuse,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        memo=launch.memo,
        search_attributes=launch.search_attributes,
        static_summary=launch.static_summary,
        static_details=launch.static_details,
        priority=launch.priority,
        rpc_timeout=RPC_TIMEOUT,
    )
