"""The sequence workflow: the frames of one scene as child workflows, a few at a time.

One frame that fails, or waits for an operator, does not stop the others. The sequence ends when every frame
has ended, and says which have no picture.
"""

from __future__ import annotations

import asyncio
from typing import Any

from temporalio import workflow
from temporalio.common import SearchAttributeUpdate
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

from workflows import attributes
from workflows.frame import raise_if_cancelled
from workflows.frame_window import FrameWindow
from workflows.sequence_state import End, SequenceState, describe, describe_end

with workflow.unsafe.imports_passed_through():
    from contracts import FrameNews, SequenceReport, SequenceRun, SequenceStatus


@workflow.defn
class SequenceWorkflow:
    @workflow.init
    def __init__(self, run: SequenceRun) -> None:
        self._state = SequenceState.begin(run, workflow.now())
        self._window = FrameWindow(self._state)
        self._announced: tuple[SequenceStatus, int, int] | None = None

    @workflow.run
    async def run(self, run: SequenceRun) -> SequenceReport:
        try:
            while not self._state.finished:
                raise_if_cancelled()
                self._announce()
                if self._window.drained:
                    await workflow.wait_condition(workflow.all_handlers_finished)
                    workflow.continue_as_new(self._state.carry())
                await self._window.run_until_change()
        except (ActivityError, asyncio.CancelledError) as error:
            if not is_cancelled_exception(error):
                raise
            await self._window.stop()
            self._finish(End.CANCELLED)
            raise
        await workflow.wait_condition(workflow.all_handlers_finished)
        return self._finished()

    def _finished(self) -> SequenceReport:
        """Raises what ends a sequence that lacks a frame: seen in the Web UI as the workflow's failure."""
        self._finish(End.FINISHED)
        report = self.status()
        if report.status is SequenceStatus.COMPLETED:
            return report
        code = next(
            (str(failure.code) for failure in report.failures.values()), str(SequenceStatus.CANCELLED)
        )
        raise ApplicationError(
            describe_end(report), report.model_dump(mode="json"), type=code, non_retryable=True
        )

    def _finish(self, end: End) -> None:
        self._state.end = end
        self._announce()

    def _announce(self) -> None:
        """Tells the search attributes, the log and the Web UI what has changed."""
        state = self._state
        announced = (state.status, int(10 * state.progress), len(state.failed) + len(state.parked))
        if announced != self._announced:
            old, self._announced = self._announced, announced
            changes: list[SearchAttributeUpdate[Any]] = [attributes.PROGRESS.value_set(announced[1] / 10)]
            if old is None or old[0] is not state.status:
                workflow.logger.info("sequence %s -> %s", old[0] if old else "none", state.status)
                changes.append(attributes.STATUS.value_set(state.status))
            if failures := self.status().failures:
                changes.append(attributes.ERROR_CODE.value_set(next(iter(failures.values())).code))
            workflow.upsert_search_attributes(changes)
        state.updated_at = workflow.now()
        workflow.set_current_details(describe(self.status()))

    # --- what people and programs ask -----------------------------------------------------------

    @workflow.query(description="The sequence's state, and its frames by their state")
    def status(self) -> SequenceReport:
        return self._state.report(workflow.info().workflow_id)

    @workflow.signal(description="Stop rendering; films are kept")
    async def pause(self) -> None:
        self._state.paused = True
        self._announce()
        await self._window.tell_pause()

    @workflow.signal(description="Go on after a pause")
    async def resume(self) -> None:
        self._state.paused = False
        self._announce()
        await self._window.tell_pause()

    @workflow.signal(description="Try again the frames that failed, were cancelled, or wait for an operator")
    async def retry(self) -> None:
        await self._window.retry()
        self._announce()

    @workflow.signal(description="The first frames are good: render the rest")
    def approve(self) -> None:
        self._state.approved = True
        self._announce()

    @workflow.signal(description="When cancelled, also remove the films made so far of the frames that run")
    def discard_on_cancel(self) -> None:
        self._state.discard = True

    @workflow.signal(description="From a frame of the sequence: it waits for an operator, or goes on")
    def frame_changed(self, news: FrameNews) -> None:
        self._window.heard(news)
        self._announce()
