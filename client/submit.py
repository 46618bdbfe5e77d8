"""Starting a frame's workflow: its name is its identity, so a second start attaches to the first.

A start of work that is running attaches to it; of work that failed or was cancelled starts again, and goes
on from the films that are there; of work that Temporal calls completed but whose manifest is gone starts
again and says so.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from temporalio.client import Client, WorkflowExecutionDescription
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from client.published import conflict, damaged, published
from contracts import FramePlan, FrameRequest, FrameRun
from store import NotFound, Store, layout
from tracer import engine
from workflows import attributes, policies, queues

WORKFLOW = "FrameWorkflow"
KEY_MEMO = "idempotency_key"
RPC_TIMEOUT = timedelta(seconds=10)


async def start(client: Client, store: Store, request: FrameRequest) -> str | None:
    """Starts the workflow or attaches to the one that runs. Returns a note for the person, or None.

    Raises BadInput where the name belongs to another frame, RPCError.
    """
    note = _tile_note(store, request)
    try:
        await _start(client, request, WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY)
    except WorkflowAlreadyStartedError:
        # It completed: between our look at the store and now, or its manifest is gone since.
        if published(store, request.job_id, request.idempotency_key) is not None:
            return None
        await _start(client, request, WorkflowIDReusePolicy.ALLOW_DUPLICATE)
        note = "Temporal calls this frame completed, but its manifest is gone from the store: rendering again"
    description = await client.get_workflow_handle(request.job_id).describe(rpc_timeout=RPC_TIMEOUT)
    if await key_of(description) != request.idempotency_key:
        raise conflict(request.job_id)
    return note


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
    settings = request.settings
    scene = request.scene.entry[-80:]  # the server refuses a summary of more than 400 bytes
    size = f"{settings.width}x{settings.height}" if settings.width else "default size"
    await client.start_workflow(
        WORKFLOW,
        FrameRun(request=request, created_at=datetime.now(UTC)),
        id=request.job_id,
        task_queue=queues.CONTROL,
        id_reuse_policy=reuse,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        memo={KEY_MEMO: request.idempotency_key},
        search_attributes=attributes.of_request(request),
        static_summary=f"{scene} frame {request.frame_number}, {request.samples_per_pixel} samples",
        static_details=f"project {request.project_id}, {size}, depth {settings.max_depth}",
        priority=policies.priority(request),
        rpc_timeout=RPC_TIMEOUT,
    )
