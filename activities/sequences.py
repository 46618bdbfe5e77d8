"""What a sequence asks: which frames are published, and what becomes of a frame that it has not started."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from temporalio import activity
from temporalio.client import (
    Client,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowFailureError,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from activities.attempt import beat_step
from activities.errors import coded_errors
from contracts import (
    DeadLetter,
    ErrorCode,
    Failure,
    FrameNews,
    FrameRequest,
    FrameStatus,
    Manifest,
    SequenceBatch,
    WatchedFrame,
)
from store import NotFound, Store, layout
from workflows import attributes
from workflows.failures import failure_of_frame
from workflows.launch import KEY_MEMO

LOOK_SECONDS = 1.0
"""Between two looks at a watched frame: a call to Temporal a second for each, and at most a second lost."""
RPC_TIMEOUT = timedelta(seconds=5)
"""Below the heartbeat timeout: a Temporal that does not answer is an attempt to repeat, no hung worker."""


class SequenceActivities:
    def __init__(self, store: Store, client: Client, worker: str) -> None:
        self._store = store
        self._client = client
        self._worker = worker

    @activity.defn(no_thread_cancel_exception=True)
    def published_frames(self, batch: SequenceBatch) -> list[int]:
        """The numbers of the frames that have a manifest. One that is damaged, or another frame's, is none:
        the frame itself will meet it when it publishes, and say so."""
        with coded_errors(self._worker):
            return [number for number in batch.numbers if self._is_published(batch.template, number)]

    def _is_published(self, template: FrameRequest, number: int) -> bool:
        beat_step("looking at manifests")
        request = template.model_copy(update={"frame_number": number})
        key = layout.manifest(request.job_id)
        try:
            data, _ = self._store.get(key)
            return Manifest.decode(data).frame.idempotency_key == request.idempotency_key
        except NotFound:
            return False
        except ValueError as error:
            activity.logger.warning("%s is damaged: %s", key, error)
            return False

    @activity.defn
    async def watch_frame(self, watched: WatchedFrame) -> FrameNews:
        """Waits until the frame is something else than it was seen to be: parked, going on, or ended. Returns
        the same again where this worker leaves."""
        while True:
            activity.heartbeat({"watching": watched.job_id})
            news = await self._look(watched)
            if news.status is not watched.seen or activity.is_worker_shutdown():
                return news
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self, watched: WatchedFrame) -> FrameNews:
        """The frame as Temporal knows it at this moment. One that it has forgotten counts as cancelled."""
        number = watched.frame_number
        try:
            seen = await self._client.get_workflow_handle(watched.job_id).describe(rpc_timeout=RPC_TIMEOUT)
        except RPCError as error:
            # A server that is just starting does not know its namespaces yet: that says nothing of the frame.
            if error.status is RPCStatusCode.NOT_FOUND and "namespace" not in error.message.lower():
                return FrameNews(frame_number=number, status=FrameStatus.CANCELLED)
            raise
        if await seen.memo_value(KEY_MEMO, "") != watched.idempotency_key:
            code, message = ErrorCode.IDEMPOTENCY_CONFLICT, f"another frame has the name {watched.job_id}"
            raise ApplicationError(message, type=code, non_retryable=True)
        match seen.status:
            case WorkflowExecutionStatus.RUNNING:
                return await self._running(number, seen)
            case WorkflowExecutionStatus.COMPLETED:
                return FrameNews(frame_number=number, status=FrameStatus.COMPLETED)
            case WorkflowExecutionStatus.CANCELED | WorkflowExecutionStatus.TERMINATED:
                return FrameNews(frame_number=number, status=FrameStatus.CANCELLED)
            case _:
                why = await self._failure(seen)
                return FrameNews(frame_number=number, status=FrameStatus.FAILED_TERMINAL, failure=why)

    async def _running(self, number: int, seen: WorkflowExecutionDescription) -> FrameNews:
        if seen.typed_search_attributes.get(attributes.STATUS) != FrameStatus.DEAD_LETTERED:
            return FrameNews(frame_number=number, status=FrameStatus.RUNNING)
        try:
            data, _ = await asyncio.to_thread(self._store.get, layout.dead_letter(seen.id))
            failure = DeadLetter.model_validate_json(data).failures[-1]
        except NotFound:  # not written yet, or decided since
            failure = None
        return FrameNews(frame_number=number, status=FrameStatus.DEAD_LETTERED, failure=failure)

    async def _failure(self, seen: WorkflowExecutionDescription) -> Failure:
        """Why the frame's workflow failed, from its history."""
        cause: BaseException | None = None
        try:
            await self._client.get_workflow_handle(seen.id, run_id=seen.run_id).result(
                rpc_timeout=RPC_TIMEOUT
            )
        except WorkflowFailureError as error:
            cause = error.cause
        return failure_of_frame(cause, seen.close_time or datetime.now(UTC))
