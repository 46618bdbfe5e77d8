"""The frame workflow: prepare, a window of tiles, finalize; it parks when a person has to decide.

It holds numbers, never pictures: what is rendered lies in the store, and this only knows which tiles
are there.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

from temporalio import workflow
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import ActivityError, WorkflowAlreadyStartedError, is_cancelled_exception

from workflows import attributes, metrics, policies, queues
from workflows.details import describe
from workflows.failures import to_failure, to_workflow_error
from workflows.launch import frame_launch
from workflows.state import FrameState, Phase
from workflows.steering import Steering
from workflows.tiling import tile_at
from workflows.window import TileWindow, is_being_cancelled

with workflow.unsafe.imports_passed_through():
    from contracts import (
        DeadLetter,
        ErrorCode,
        Failure,
        FinalizeOutcome,
        FinalizeTask,
        FramePlan,
        FrameResult,
        FrameRun,
        FrameStatus,
        Message,
    )

Result = TypeVar("Result")


@workflow.defn
class FrameWorkflow(Steering):
    @workflow.init
    def __init__(self, run: FrameRun) -> None:
        self._state = FrameState.begin(run, workflow.now())
        self._window: TileWindow | None = None
        self._retry_asked: frozenset[str] | None = None
        self._letter: DeadLetter | None = None
        self._missing: tuple[int, ...] = ()
        self._announced: tuple[FrameStatus, int] | None = None

    @workflow.run
    async def run(self, run: FrameRun) -> FrameResult:
        try:
            plan = self._state.plan or await self._prepare()
            self._window = TileWindow(self._state, plan)
            while True:
                raise_if_cancelled()
                await self._render(self._window)
                if self._state.dead:
                    await self._park(tuple(self._state.dead.values()))
                    continue
                result = await self._finalize(plan)
                if result is not None:
                    await workflow.wait_condition(workflow.all_handlers_finished)
                    return result
        except ActivityError as error:
            if is_cancelled_exception(error):
                await self._cancelled()
                raise
            await self._failed(to_failure(error))
            raise to_workflow_error(to_failure(error)) from error
        except asyncio.CancelledError:
            await self._cancelled()
            raise

    async def _prepare(self) -> FramePlan:
        self._enter(Phase.PREPARING)
        plan = await self._step("prepare_frame", self._state.request, FramePlan, queues.SERVICE)
        self._state.plan = plan
        return plan

    async def _render(self, window: TileWindow) -> None:
        self._enter(Phase.RENDERING)
        while await window.run_until_change():
            if window.drained:
                await workflow.wait_condition(workflow.all_handlers_finished)
                workflow.continue_as_new(self._state.carry())
            self._enter(Phase.RENDERING)
        await workflow.wait_condition(lambda: not self._state.paused)

    async def _finalize(self, plan: FramePlan) -> FrameResult | None:
        """The published frame; None where films were missing, whose tiles are then open again."""
        self._enter(Phase.FINALIZING)
        task = FinalizeTask(
            job_id=workflow.info().workflow_id,
            plan=plan,
            request=self._state.request,
            counts=self._state.run_counts(plan),
            created_at=self._state.created_at,
            workers=self._state.workers(),
            attempts=self._state.unusual_attempts(),
        )
        outcome = await self._step("finalize_frame", task, FinalizeOutcome, queues.finalize(plan.engine))
        if outcome.result is not None:
            self._state.result = outcome.result
            self._enter(Phase.COMPLETED)
            return outcome.result
        self._state.lose(plan, outcome.missing)
        if outcome.missing == self._missing:
            await self._park((self._vanishing(plan, outcome.missing),))
        self._missing = outcome.missing
        return None

    def _vanishing(self, plan: FramePlan, missing: tuple[int, ...]) -> Failure:
        """The films that were rendered anew are gone again: rendering them for ever would not help."""
        return Failure(
            code=ErrorCode.STORAGE_UNAVAILABLE,
            message=f"the films of {len(missing)} tiles are rendered and vanish from the store again and "
            f"again, first {tile_at(plan, missing[0]).tile_id}; find out what removes them",
            at=workflow.now(),
        )

    async def _step(self, name: str, arg: Message, result_type: type[Result], queue: str) -> Result:
        """One exclusive step. A terminal error is raised; any other that outlasts its retries parks
        the frame until a person asks for another try."""
        while True:
            try:
                return await self._activity(name, arg, result_type, queue)
            except ActivityError as error:
                failure = to_failure(error)
                if is_cancelled_exception(error) or failure.code.is_terminal:
                    raise
                raise_if_cancelled()
                await self._park((failure,))

    async def _activity(self, name: str, arg: Message, result_type: type[Result], queue: str) -> Result:
        result: Result = await workflow.execute_activity(
            name,
            arg,
            result_type=result_type,
            task_queue=queue,
            summary=f"{name.replace('_', ' ')} {self._state.request.scene.entry}",
            start_to_close_timeout=policies.ATTEMPT_TIMEOUT,
            heartbeat_timeout=policies.HEARTBEAT_TIMEOUT,
            retry_policy=policies.STEP_RETRY,
            priority=policies.priority(self._state.request),
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )
        return result

    async def _park(self, failures: tuple[Failure, ...]) -> None:
        """Waits for an operator's retry. What is rendered stays, and no queue is held up."""
        phase, self._retry_asked = self._state.phase, None
        self._state.last_failure = failures[-1]
        metrics.dead_lettered(failures[-1].code)
        self._letter = DeadLetter(
            job_id=workflow.info().workflow_id,
            request=self._state.request,
            failures=failures,
            created_at=workflow.now(),
        )
        self._enter(Phase.PARKED)
        await self._record("record_dead_letter", self._letter)
        raise_if_cancelled()
        await self._wait_for_retry(failures[-1])
        self._state.revive(self._retry_asked or frozenset())
        await self._remove_letter()
        self._enter(phase)

    async def _wait_for_retry(self, failure: Failure) -> None:
        """Until an operator asks for another try. Raises what ends the frame when its time limit passes."""
        limit = self._state.request.park_limit_seconds
        try:
            await workflow.wait_condition(lambda: self._retry_asked is not None, timeout=limit)
        except TimeoutError:
            message = f"dead-lettered for {limit} s without an operator's decision; {failure.message}"
            failure = failure.model_copy(update={"message": message})
            await self._remove_letter()
            await self._failed(failure)
            raise to_workflow_error(failure) from None

    async def _remove_letter(self) -> None:
        """The operator has decided, by a retry or a cancel: the record goes."""
        if self._letter is not None:
            await self._record("remove_dead_letter", self._letter)
            self._letter = None

    async def _record(self, name: str, arg: Message) -> None:
        """Keeps the store's records in step. The frame's own state is the truth: a store that cannot take
        them must not keep the frame from parking or ending, and the failure is in the history."""
        try:
            await self._activity(name, arg, type(None), queues.SERVICE)
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            workflow.logger.error("%s failed: %s", name, to_failure(error).message)

    async def _failed(self, failure: Failure) -> None:
        if self._window is not None:
            await self._window.stop()
        self._state.last_failure = failure
        self._enter(Phase.FAILED)

    async def _cancelled(self) -> None:
        if self._window is not None:
            await self._window.stop()
        self._enter(Phase.CANCELLED)
        await self._remove_letter()
        if self._state.discard and self._state.plan is not None:
            await self._record("discard_frame", self._state.plan)

    def _enter(self, phase: Phase) -> None:
        """Goes to a phase, and tells the search attributes, the log, the metrics and the Web UI."""
        state = self._state
        state.phase = phase
        announced = (state.status, int(10 * state.progress))
        if announced == self._announced:
            return
        old, self._announced = self._announced, announced
        state.updated_at = workflow.now()
        workflow.upsert_search_attributes([attributes.PROGRESS.value_set(announced[1] / 10)])
        if old is None or old[0] != state.status:
            before = old[0] if old else "none"
            names = {"idempotency_key": state.request.idempotency_key, "progress": announced[1] / 10}
            workflow.logger.info("frame %s -> %s", before, state.status, extra=names)
            metrics.frame_changed(before, state.status)
            engine = [attributes.ENGINE.value_set(state.plan.engine)] if state.plan else []
            workflow.upsert_search_attributes([attributes.STATUS.value_set(state.status), *engine])
        if phase in (Phase.FAILED, Phase.PARKED) and state.last_failure is not None:
            workflow.upsert_search_attributes([attributes.ERROR_CODE.value_set(state.last_failure.code)])
        workflow.set_current_details(describe(self.status(), tuple(state.dead.values())))

    async def _start_refined(self, samples: int) -> str:
        """Starts the frame that has more samples, or attaches to it. It shares this one's films and outlives
        this workflow."""
        request = self._state.request.model_copy(update={"samples_per_pixel": samples})
        await self._activity("record_job", request, type(None), queues.SERVICE)
        launch = frame_launch(request)
        try:
            await workflow.start_child_workflow(
                FrameWorkflow.run,
                FrameRun(request=request, created_at=workflow.now()),
                id=request.job_id,
                task_queue=queues.CONTROL,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,
                parent_close_policy=workflow.ParentClosePolicy.ABANDON,
                cancellation_type=workflow.ChildWorkflowCancellationType.ABANDON,
                memo=launch.memo,
                search_attributes=launch.search_attributes,
                static_summary=launch.static_summary,
                static_details=launch.static_details,
                priority=launch.priority,
            )
        except WorkflowAlreadyStartedError:
            workflow.logger.info("frame %s runs already, or is published", request.job_id)
        return request.job_id


def raise_if_cancelled() -> None:
    """Ends the run where a cancel was swallowed: see is_being_cancelled."""
    if is_being_cancelled():
        raise asyncio.CancelledError
