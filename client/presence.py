"""Who is there: the workers that poll for a frame, and the finalizer that holds its lease."""

from __future__ import annotations

from datetime import timedelta

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client

from client.submit import RPC_TIMEOUT
from contracts import FrameStatus, JobStatus, LeaseRecord
from store import NotFound, Store, layout
from store.lease import LeaseState
from tracer import engine
from workflows import queues

NOBODY = "no tile worker is polling yet: it is still starting, or has to be started"


async def nobody_note(client: Client, status: JobStatus, at_work: int) -> str | None:
    """Says so where the frame waits for a worker that does not exist."""
    if status.status is FrameStatus.QUEUED:
        if not await has_workers(client, queues.SERVICE):
            return NOBODY
    elif status.engine and not at_work:
        queue = {
            FrameStatus.RUNNING: queues.tiles,
            FrameStatus.PROGRESSING: queues.tiles,
            FrameStatus.FINALIZING: queues.finalize,
        }.get(status.status)
        if queue is not None and not await has_workers(client, queue(status.engine)):
            return _no_worker_of(status.engine)
        if status.note and not await has_workers(client, queues.isolated(status.engine)):
            return f"{status.note}; no isolated worker is polling: start one"
    return status.note


def _no_worker_of(wanted: str) -> str:
    if wanted == engine.fingerprint():  # only the workers are missing, or they are still starting
        return NOBODY
    return (
        f"no worker of engine {wanted} is polling, and this program's is {engine.fingerprint()}: start a "
        "worker of that engine, or cancel and submit again to render with the present one (films of the old "
        "one are not used then)"
    )


async def has_workers(client: Client, queue: str) -> bool:
    """Whether any worker has polled the queue within the server's last minutes."""
    answer = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=client.namespace,
            task_queue=TaskQueue(name=queue),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
        ),
        timeout=RPC_TIMEOUT,
    )
    return len(answer.pollers) > 0


def lease_of(store: Store, job_id: str) -> LeaseRecord | None:
    """The finalizer's lease as the store has it; None where nobody has ever held it, or it is free.

    Raises StoreError."""
    key = layout.lease(job_id)
    try:
        data, found = store.get(key)
    except NotFound:
        return None
    held = LeaseState.decode(key, data)
    if held.free:
        return None
    return LeaseRecord(
        owner=held.owner, fence=held.fence, expires_at=found.modified + timedelta(seconds=held.ttl)
    )
