"""Submitting: the manifest answers first, then the bundle goes to the store, then the workflow starts.

A submit of work that is running attaches to it; of work that failed or was cancelled starts again, and
goes on from the films that are there.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta

from temporalio.client import Client, WorkflowExecutionDescription
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from client.errors import BadInput, Unreachable
from client.request import LocalBundle
from contracts import (
    FrameRequest,
    FrameResult,
    FrameRun,
    FrameStatus,
    JobStatus,
    Manifest,
    SampleCounts,
    TileCounts,
)
from store import AlreadyExists, NotFound, Store, layout
from store.blobs import put_blob
from workflows import attributes, policies, queues

WORKFLOW = "FrameWorkflow"
KEY_MEMO = "idempotency_key"


def published(store: Store, job_id: str, key: str | None = None) -> Manifest | None:
    """The job's manifest, if it is published. Raises BadInput where its full key is not `key`."""
    try:
        data, _ = store.get(layout.manifest(job_id))
    except NotFound:
        return None
    manifest = Manifest.model_validate_json(data)
    if key is not None and manifest.frame.idempotency_key != key:
        raise BadInput(f"{job_id}: idempotency_conflict: another frame is published under this name")
    return manifest


def status_of(manifest: Manifest, *, fresh: bool) -> JobStatus:
    """A published frame's status. fresh: for a submit that it answered, which rendered nothing."""
    frame, publication = manifest.frame, manifest.publication
    counts, image = publication.counts, frame.images[0]
    target = frame.width * frame.height * frame.request.samples_per_pixel
    return JobStatus(
        job_id=frame.job_id,
        idempotency_key=frame.idempotency_key,
        status=FrameStatus.COMPLETED,
        frame=frame.request.frame_number,
        progress=1.0,
        tiles=TileCounts(total=len(frame.films), rendered=len(frame.films)),
        samples=SampleCounts(
            target=target,
            rendered=0 if fresh else counts.samples_rendered,
            resumed=target if fresh else counts.samples_resumed,
        ),
        result=FrameResult(
            manifest=layout.manifest(frame.job_id),
            image=image.key,
            sha256=image.sha256,
            film_sha256=frame.film_sha256,
        ),
        input_hash=frame.sample_key,
        max_retries=(policies.TILE_RETRY.maximum_attempts or 1) - 1,
        progress_pointer=layout.films(frame.sample_key),
        created_at=publication.created_at,
        updated_at=publication.created_at,
        engine=frame.engine,
    )


def upload(store: Store, request: FrameRequest, local: LocalBundle) -> None:
    """Puts the bundle's files and the job's record into the store; what is there is not sent again."""
    for file in local.bundle.files:
        if put_blob(store, local.paths[file.path]) != file.sha256:
            raise BadInput(f"{local.paths[file.path]}: changed while it was being submitted; submit again")
    with suppress(AlreadyExists):
        store.put_new(layout.bundle(local.bundle.version), local.bundle.model_dump_json(indent=1).encode())
    with suppress(AlreadyExists):
        store.put_new(layout.job(request.job_id), request.model_dump_json(indent=1).encode())


async def start(client: Client, store: Store, request: FrameRequest) -> str | None:
    """Starts the frame's workflow, or attaches to the one that runs. A note for the person, or None."""
    try:
        await _start(client, request, WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY)
        note = None
    except WorkflowAlreadyStartedError:
        # It completed: between our look at the store and now, or its manifest is gone since.
        if published(store, request.job_id, request.idempotency_key) is not None:
            return None
        await _start(client, request, WorkflowIDReusePolicy.ALLOW_DUPLICATE)
        note = (
            "Temporal says this frame is completed, but its manifest is gone from the store: rendering again"
        )
    except RPCError as error:
        raise Unreachable(f"Temporal refused the frame: {error.message}") from error
    description = await client.get_workflow_handle(request.job_id).describe()
    if await key_of(description) != request.idempotency_key:
        raise BadInput(f"{request.job_id}: idempotency_conflict: another frame runs under this name")
    return note


async def key_of(description: WorkflowExecutionDescription) -> str:
    return str(await description.memo_value(KEY_MEMO, ""))


async def _start(client: Client, request: FrameRequest, reuse: WorkflowIDReusePolicy) -> None:
    settings = request.settings
    scene = request.scene.entry[-80:]
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
        rpc_timeout=timedelta(seconds=20),
    )
