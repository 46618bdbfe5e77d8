"""The window of frames: keeps a bounded number of a sequence's frames running until each has ended.

A frame is a child workflow, or one that somebody else has started already under the same name: that one is
watched from outside. A frame that waits for an operator takes no place in the window.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from temporalio import workflow
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import (
    ActivityError,
    ChildWorkflowError,
    FailureError,
    TerminatedError,
    WorkflowAlreadyStartedError,
    is_cancelled_exception,
)

from workflows import policies, queues
from workflows.failures import failure_of_frame, to_failure
from workflows.launch import frame_launch
from workflows.sequence_state import SequenceState
from workflows.window import history_is_long

with workflow.unsafe.imports_passed_through():
    from contracts import (
        FrameNews,
        FrameRequest,
        FrameResult,
        FrameRun,
        FrameStatus,
        SequenceBatch,
        WatchedFrame,
    )


class FrameWindow:
    """Renders the frames of one sequence. What it learns goes into the sequence's state."""

    def __init__(self, state: SequenceState) -> None:
        self._state = state
        self._active: dict[int, asyncio.Task[None]] = {}
        self._watched: set[int] = set()
        """Those of the active that are no children of this run."""
        self._unpublished: set[int] = set()
        """Frames that the store was asked about, and that had no manifest."""
        self._telling = asyncio.Lock()

    async def run_until_change(self) -> None:
        """Starts what may start and waits until a frame has ended, or one more may start."""
        while (number := self._next()) is not None:
            if number in self._unpublished:
                self._unpublished.discard(number)
                self._active[number] = asyncio.create_task(self._render(number))
            else:
                await self._look_up()
        await workflow.wait_condition(
            lambda: self._any_ended() or self._next() is not None or self._state.finished or self.drained
        )
        for number in [n for n, task in self._active.items() if task.done()]:
            self._active.pop(number).result()

    @property
    def drained(self) -> bool:
        """It is time to continue as new, and no child runs whose end would be missed: parked ones, and those
        of others, are found again by their names."""
        found_again = self._watched | self._state.parked.keys()
        return history_is_long() and self._active.keys() <= found_again

    async def stop(self) -> None:
        """Cancels the sequence's own frames and waits until they have stopped. Frames that somebody else has
        started go on."""
        if self._state.discard:
            await self._tell("discard_on_cancel", self._state.own)
        for number, task in self._active.items():
            if number in self._watched and number in self._state.own:
                await self._cancel_from_outside(number)  # what watches it sees its end
            else:
                task.cancel()
        for number in sorted(self._state.own - self._active.keys()):
            await self._cancel_from_outside(number)  # of an earlier run, and not found again yet
        await asyncio.gather(*self._active.values(), return_exceptions=True)

    async def tell_pause(self) -> None:
        """Brings the sequence's own frames to what the sequence is, paused or not. One at a time, so that a
        resume that follows a pause at once arrives after it."""
        async with self._telling:
            await self._tell("pause" if self._state.paused else "resume", self._state.own)

    async def retry(self) -> None:
        """Another try for every frame that waits for an operator, or has ended without a picture."""
        self._state.reopen()
        # Whether those of an earlier run of this workflow wait may not be known yet; a frame that does not
        # wait takes no notice.
        found_again = self._state.own - (self._active.keys() - self._watched)
        await self._tell("retry", self._state.parked.keys() | found_again)

    def _any_ended(self) -> bool:
        return any(task.done() for task in self._active.values())

    def _next(self) -> int | None:
        """The frame to start now, if there is one and room for it."""
        busy = len(self._active.keys() - self._state.parked.keys())
        if self._state.paused or history_is_long() or busy >= policies.SEQUENCE_WINDOW:
            return None
        return next((n for n in self._state.startable() if n not in self._active), None)

    async def _look_up(self) -> None:
        """Asks the store which of the next frames are published. What it cannot say, each frame finds out."""
        known = self._unpublished | self._active.keys()
        unknown = [number for number in self._state.startable() if number not in known]
        batch = tuple(unknown[: policies.PUBLISHED_BATCH])
        try:
            published: list[int] = await workflow.execute_activity(
                "published_frames",
                SequenceBatch(template=self._state.request.template, numbers=batch),
                result_type=list[int],
                task_queue=queues.SERVICE,
                summary=f"which of {len(batch)} frames are published",
                start_to_close_timeout=policies.ATTEMPT_TIMEOUT,
                heartbeat_timeout=policies.HEARTBEAT_TIMEOUT,
                retry_policy=policies.JUDGE_RETRY,
            )
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            workflow.logger.error(
                "published_frames failed: %s", to_failure(error, policies.JUDGE_RETRY).message
            )
            published = []
        for number in published:
            self._state.publish(number)
        self._unpublished.update(set(batch) - set(published))

    async def _render(self, number: int) -> None:
        """One frame to its end, whoever has started it."""
        request = self._state.request.frame(number)
        try:
            while True:
                try:
                    child = await self._start(request)
                    break
                except WorkflowAlreadyStartedError:
                    if await self._watch(request):
                        return
            self._state.begin_frame(number, own=True)
            if self._state.paused:  # since it was decided to start it
                await self.tell_pause()
            await child
            self._state.publish(number)
        except ChildWorkflowError as error:
            if is_cancelled_exception(error) or isinstance(error.cause, TerminatedError):
                self._state.cancel(number)
            else:
                self._state.fail(number, failure_of_frame(error.cause, workflow.now()))
        except asyncio.CancelledError:  # the sequence was cancelled before the frame had begun
            return

    async def _start(self, request: FrameRequest) -> workflow.ChildWorkflowHandle[object, FrameResult]:
        launch = frame_launch(request)
        return await workflow.start_child_workflow(
            "FrameWorkflow",
            FrameRun(request=request),
            id=request.job_id,
            result_type=FrameResult,
            task_queue=queues.CONTROL,
            # Only a running frame is in the way. One that ended just now is run again: its films and its
            # manifest are there, so that it renders nothing.
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            # What ends the sequence from outside loses nothing of the frames that render.
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            memo=launch.memo,
            search_attributes=launch.search_attributes,
            static_summary=launch.static_summary,
            static_details=launch.static_details,
            priority=launch.priority,
        )

    async def _watch(self, request: FrameRequest) -> bool:
        """Follows a frame that runs already. False: whoever started it has cancelled it, and it is this
        sequence's turn."""
        number, seen = request.frame_number, None
        self._watched.add(number)
        self._state.begin_frame(number, own=False)
        try:
            while True:
                news = await self._news(request, seen)
                seen = news.status
                if seen is FrameStatus.COMPLETED:
                    self._state.publish(number)
                    return True
                if seen is FrameStatus.FAILED_TERMINAL and news.failure is not None:
                    self._state.fail(number, news.failure)
                    return True
                if seen is FrameStatus.CANCELLED:
                    if number not in self._state.own:
                        self._state.running.discard(number)
                        return False
                    self._state.cancel(number)
                    return True
                self.heard(news)
        except ActivityError as error:
            if not is_cancelled_exception(error):
                self._state.fail(number, to_failure(error, policies.JUDGE_RETRY))
            return True
        except asyncio.CancelledError:
            return True
        finally:
            self._watched.discard(number)

    async def _news(self, request: FrameRequest, seen: FrameStatus | None) -> FrameNews:
        watched = WatchedFrame(
            job_id=request.job_id,
            idempotency_key=request.idempotency_key,
            frame_number=request.frame_number,
            seen=seen,
        )
        news: FrameNews = await workflow.execute_activity(
            "watch_frame",
            watched,
            result_type=FrameNews,
            task_queue=queues.WATCH,
            summary=f"frame {request.frame_number}, which runs already",
            start_to_close_timeout=policies.ATTEMPT_TIMEOUT,
            heartbeat_timeout=policies.HEARTBEAT_TIMEOUT,
            retry_policy=policies.JUDGE_RETRY,
        )
        return news

    def heard(self, news: FrameNews) -> None:
        """A frame waits for an operator, or goes on."""
        if news.status is FrameStatus.DEAD_LETTERED:
            self._state.park(news.frame_number, news.failure)
        else:
            self._state.unpark(news.frame_number)

    async def _tell(self, signal: str, numbers: Iterable[int]) -> None:
        await asyncio.gather(*(self._signal(number, signal) for number in sorted(numbers)))

    async def _signal(self, number: int, signal: str) -> None:
        job_id = self._state.request.frame(number).job_id
        try:
            await workflow.get_external_workflow_handle(job_id).signal(signal)
        except FailureError as error:
            if is_cancelled_exception(error):
                raise
            workflow.logger.info("frame %d has ended before its %s", number, signal)

    async def _cancel_from_outside(self, number: int) -> None:
        job_id = self._state.request.frame(number).job_id
        try:
            await workflow.get_external_workflow_handle(job_id).cancel()
        except FailureError as error:
            workflow.logger.info("frame %d has ended before its cancel: %s", number, error)
