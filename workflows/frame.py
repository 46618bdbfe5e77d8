"""The frame workflow: prepare, a window of tiles, finalize; parks when a person has to decide.

It holds numbers, never pictures: what is rendered lies in the store, and this only knows which tiles
are there. Everything it must remember is one FrameRun, which continue-as-new carries over.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from enum import StrEnum
from typing import TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

from workflows import attributes, policies, queues
from workflows.details import describe
from workflows.failures import to_failure, to_workflow_error
from workflows.tiling import from_ranges, tile_at, tile_count, to_ranges

with workflow.unsafe.imports_passed_through():
    from contracts import (
        AttemptCounts,
        DeadLetter,
        ErrorCode,
        Failure,
        FinalizeOutcome,
        FinalizeTask,
        FramePlan,
        FrameResult,
        FrameRun,
        FrameStatus,
        JobStatus,
        Message,
        SampleCounts,
        TileCounts,
        TileOutcome,
        TileResult,
        TileTask,
    )

Result = TypeVar("Result")


class Phase(StrEnum):
    """What the workflow is doing; together with its flags it decides the frame's status."""

    PREPARING = "preparing"
    RENDERING = "rendering"
    FINALIZING = "finalizing"
    PARKED = "parked"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@workflow.defn
class FrameWorkflow:
    @workflow.init
    def __init__(self, run: FrameRun) -> None:
        self._request = run.request
        self._created_at = run.created_at or workflow.now()
        self._updated_at = workflow.now()
        self._plan = run.plan
        self._rendered = from_ranges(run.rendered)
        self._standing = dict(run.standing)
        self._isolated = set(run.isolated)
        self._dead = dict(run.dead)
        self._counts = run.counts
        self._paused = run.paused
        self._last_failure = run.last_failure
        self._result: FrameResult | None = None
        self._active: dict[int, asyncio.Task[None]] = {}
        self._rounds: Counter[int] = Counter()
        self._phase = Phase.PREPARING
        self._status: FrameStatus | None = None
        self._discard = False
        self._retry_asked = False
        self._shown_progress = 0

    @workflow.run
    async def run(self, run: FrameRun) -> FrameResult:
        try:
            if self._plan is None:
                self._enter(Phase.PREPARING)
                self._plan = await self._step("prepare_frame", run.request, FramePlan, queues.SERVICE)
            while True:
                self._enter(Phase.RENDERING)
                await self._render_tiles(self._plan)
                if self._dead:
                    await self._park(tuple(self._dead.values()))
                    continue
                self._enter(Phase.FINALIZING)
                outcome = await self._finalize(self._plan)
                if outcome.result is not None:
                    self._result = outcome.result
                    self._enter(Phase.COMPLETED)
                    return outcome.result
                self._rendered.difference_update(outcome.missing)
        except ActivityError as error:
            await self._stop_tiles()
            if is_cancelled_exception(error):
                await self._cancelled()
                raise
            self._last_failure = to_failure(error)
            self._enter(Phase.FAILED)
            raise to_workflow_error(self._last_failure) from error
        except asyncio.CancelledError:
            await self._stop_tiles()
            await self._cancelled()
            raise

    # --- tiles ----------------------------------------------------------------------------------

    async def _render_tiles(self, plan: FramePlan) -> None:
        """Keeps a window of tiles running until every tile is rendered or dead."""
        waiting = deque(n for n in range(tile_count(plan)) if n not in self._rendered | self._dead.keys())
        while waiting or self._active:
            while self._may_start(waiting):
                number = waiting.popleft()
                self._active[number] = asyncio.create_task(self._render_tile(plan, number))
            if not self._active and self._draining():
                workflow.continue_as_new(self._carry())
            await workflow.wait_condition(lambda: self._may_start(waiting) or self._any_ended())
            for number in [n for n, task in self._active.items() if task.done()]:
                self._active.pop(number).result()  # raises what ends the frame
                if number not in self._rendered and number not in self._dead:
                    waiting.appendleft(number)
            self._enter(Phase.RENDERING)

    def _may_start(self, waiting: deque[int]) -> bool:
        room = len(self._active) < policies.WINDOW
        return bool(waiting) and room and not self._paused and not self._draining()

    def _any_ended(self) -> bool:
        if not self._active:
            return self._draining()
        return any(task.done() for task in self._active.values())

    def _draining(self) -> bool:
        """The history is long enough: start no more tiles, and go on in a new run once all ended."""
        return workflow.info().is_continue_as_new_suggested()

    async def _render_tile(self, plan: FramePlan, number: int) -> None:
        """One tile until it is rendered or dead, or until the frame pauses or drains."""
        task = TileTask(
            job_id=workflow.info().workflow_id,
            sample_key=plan.sample_key,
            tile=tile_at(plan, number),
            samples=self._request.samples_per_pixel,
        )
        while not self._paused and not self._draining():
            try:
                result = await self._attempt_round(plan, number, task)
                if result is None:
                    continue
            except ActivityError as error:
                if is_cancelled_exception(error):
                    return  # stopped before it began
                raise
            self._count(task, result)
            if result.outcome is TileOutcome.RENDERED:
                self._rendered.add(number)
                self._standing.pop(number, None)
                self._isolated.discard(number)
                return
            if result.outcome is TileOutcome.STOPPED:
                return
            # yielded: its worker is leaving, another one goes on at once

    async def _attempt_round(self, plan: FramePlan, number: int, task: TileTask) -> TileResult | None:
        """One round of attempts. None: the round failed, and it has been decided what follows."""
        alone = number in self._isolated
        self._rounds[number] += 1  # attempt_id must not repeat within a run
        try:
            return await workflow.execute_activity(
                "render_tile",
                task,
                result_type=TileResult,
                task_queue=queues.isolated(plan.engine) if alone else queues.tiles(plan.engine),
                activity_id=f"{task.tile.tile_id}.{self._rounds[number]}",
                summary=f"tile {task.tile.tile_id} to {task.samples} samples" + (", alone" if alone else ""),
                start_to_close_timeout=policies.ATTEMPT_TIMEOUT,
                heartbeat_timeout=policies.HEARTBEAT_TIMEOUT,
                retry_policy=policies.ISOLATED_RETRY if alone else policies.TILE_RETRY,
                priority=policies.priority(self._request),
                cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            )
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            failure = to_failure(error, task.tile.tile_id)
            if failure.code.is_terminal:
                raise
            await self._judge(number, task, failure, alone)
            return None

    async def _judge(self, number: int, task: TileTask, failure: Failure, alone: bool) -> None:
        """A round failed. Progress since the last one forgives it; else isolation, else it is dead."""
        attempts = policies.ISOLATED_RETRY.maximum_attempts if alone else policies.TILE_RETRY.maximum_attempts
        self._add(attempts=attempts, attempts_lost=attempts)
        self._last_failure = failure
        newest = await workflow.execute_activity(
            "newest_samples",
            task,
            result_type=int,
            task_queue=queues.SERVICE,
            summary=f"how far is {task.tile.tile_id}",
            start_to_close_timeout=policies.ATTEMPT_TIMEOUT,
            heartbeat_timeout=policies.HEARTBEAT_TIMEOUT,
            retry_policy=policies.JUDGE_RETRY,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )
        if newest > self._standing.get(number, 0):
            self._standing[number] = newest
            self._isolated.discard(number)
        elif not alone:
            self._isolated.add(number)
        else:
            self._isolated.discard(number)
            self._dead[number] = failure.model_copy(
                update={
                    "code": ErrorCode.TILE_POISONOUS,
                    "message": f"no progress in a full round nor in isolation, stands at {newest} of "
                    f"{task.samples} samples; last: {failure.code}: {failure.message}",
                }
            )

    async def _stop_tiles(self) -> None:
        """Asks running tiles to stop at their next slice, and waits until they have."""
        for task in self._active.values():
            task.cancel()
        await asyncio.gather(*self._active.values(), return_exceptions=True)

    # --- steps ----------------------------------------------------------------------------------

    async def _step(self, name: str, arg: Message, result_type: type[Result], queue: str) -> Result:
        """One exclusive step. A terminal error is raised; any other that outlasts its retries parks
        the frame until a person asks for another try."""
        while True:
            try:
                outcome: Result = await workflow.execute_activity(
                    name,
                    arg,
                    result_type=result_type,
                    task_queue=queue,
                    summary=f"{name.replace('_', ' ')} {self._request.scene.entry}",
                    start_to_close_timeout=policies.ATTEMPT_TIMEOUT,
                    heartbeat_timeout=policies.HEARTBEAT_TIMEOUT,
                    retry_policy=policies.STEP_RETRY,
                    priority=policies.priority(self._request),
                    cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
                )
                return outcome
            except ActivityError as error:
                if is_cancelled_exception(error):
                    raise
                failure = to_failure(error)
                if failure.code.is_terminal:
                    raise
                await self._park((failure,))

    async def _finalize(self, plan: FramePlan) -> FinalizeOutcome:
        await workflow.wait_condition(lambda: not self._paused)
        task = FinalizeTask(
            job_id=workflow.info().workflow_id,
            sample_key=plan.sample_key,
            request=self._request,
            counts=self._counts,
        )
        return await self._step("finalize_frame", task, FinalizeOutcome, queues.finalize(plan.engine))

    async def _park(self, failures: tuple[Failure, ...]) -> None:
        """Waits for an operator's retry. What is rendered stays, and no queue is held up."""
        phase, self._retry_asked = self._phase, False
        self._last_failure = failures[-1]
        self._enter(Phase.PARKED)
        letter = DeadLetter(
            job_id=workflow.info().workflow_id,
            request=self._request,
            failures=failures,
            created_at=workflow.now(),
        )
        await self._record("record_dead_letter", letter)
        await workflow.wait_condition(lambda: self._retry_asked)
        self._dead.clear()
        self._standing.clear()
        self._last_failure = None
        await self._record("remove_dead_letter", letter)
        self._enter(phase)

    async def _record(self, name: str, letter: DeadLetter) -> None:
        """Keeps the store's record in step. The frame's own state is the truth: a store that cannot
        take the record must not keep the frame from parking, and the failure is in the history."""
        try:
            await workflow.execute_activity(
                name,
                letter,
                task_queue=queues.SERVICE,
                start_to_close_timeout=policies.ATTEMPT_TIMEOUT,
                heartbeat_timeout=policies.HEARTBEAT_TIMEOUT,
                retry_policy=policies.STEP_RETRY,
            )
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            workflow.logger.error("dead letter not recorded: %s", to_failure(error).message)

    async def _cancelled(self) -> None:
        self._enter(Phase.CANCELLED)
        if self._discard and self._plan is not None:
            await asyncio.shield(
                workflow.execute_activity(
                    "discard_frame",
                    self._plan,
                    task_queue=queues.SERVICE,
                    start_to_close_timeout=policies.ATTEMPT_TIMEOUT,
                    heartbeat_timeout=policies.HEARTBEAT_TIMEOUT,
                    retry_policy=policies.STEP_RETRY,
                )
            )

    # --- state ----------------------------------------------------------------------------------

    def _add(self, **amounts: int) -> None:
        current = self._counts.model_dump()
        self._counts = self._counts.model_copy(update={k: current[k] + v for k, v in amounts.items()})

    def _count(self, task: TileTask, result: TileResult) -> None:
        yielded = result.outcome is TileOutcome.YIELDED
        self._add(attempts=result.attempt, attempts_lost=result.attempt - 1, attempts_yielded=int(yielded))
        if result.outcome is TileOutcome.RENDERED:
            self._add(
                samples_resumed=result.resumed * task.tile.area,
                samples_rendered=(result.samples - result.resumed) * task.tile.area,
            )

    def _carry(self) -> FrameRun:
        return FrameRun(
            request=self._request,
            created_at=self._created_at,
            plan=self._plan,
            rendered=to_ranges(self._rendered),
            standing=self._standing,
            isolated=tuple(sorted(self._isolated)),
            dead=self._dead,
            counts=self._counts,
            paused=self._paused,
            last_failure=self._last_failure,
        )

    def _decide_status(self) -> FrameStatus:
        """The one place that decides what state a frame is in."""
        ended = {
            Phase.COMPLETED: FrameStatus.COMPLETED,
            Phase.FAILED: FrameStatus.FAILED_TERMINAL,
            Phase.CANCELLED: FrameStatus.CANCELLED,
            Phase.PARKED: FrameStatus.DEAD_LETTERED,
        }
        if self._phase in ended:
            return ended[self._phase]
        if self._paused:
            return FrameStatus.PAUSED
        if self._phase is Phase.FINALIZING:
            return FrameStatus.FINALIZING
        if self._phase is Phase.PREPARING:
            return FrameStatus.QUEUED
        return FrameStatus.PROGRESSING if self._rendered else FrameStatus.RUNNING

    def _enter(self, phase: Phase) -> None:
        """Goes to a phase, and tells the search attributes, the log, the metrics and the Web UI."""
        self._phase = phase
        status, tenth = self._decide_status(), int(10 * self._progress())
        if status == self._status and tenth == self._shown_progress:
            return
        updates = [attributes.PROGRESS.value_set(tenth / 10)]
        if status != self._status:
            workflow.logger.info("frame %s -> %s", self._status, status)
            workflow.metric_meter().create_counter("tessera_frame_transitions", "Changes of state").add(
                1, {"from": self._status or "none", "to": status}
            )
            updates.append(attributes.STATUS.value_set(status))
            failed = self._last_failure is not None and status in (
                FrameStatus.FAILED_TERMINAL,
                FrameStatus.DEAD_LETTERED,
            )
            if failed and self._last_failure is not None:
                updates.append(attributes.ERROR_CODE.value_set(self._last_failure.code))
        self._status, self._shown_progress, self._updated_at = status, tenth, workflow.now()
        workflow.upsert_search_attributes(updates)
        workflow.set_current_details(describe(self.status()))

    def _progress(self) -> float:
        """Share of the tiles' area that is rendered; below 1 until the frame is published."""
        if self._phase is Phase.COMPLETED:
            return 1.0
        total = tile_count(self._plan) if self._plan else 0
        return len(self._rendered) / total if total else 0.0

    # --- what people and programs ask -----------------------------------------------------------

    @workflow.query(description="The frame's state, counts, last failure and result")
    def status(self) -> JobStatus:
        request, plan, counts = self._request, self._plan, self._counts
        target = plan.width * plan.height * request.samples_per_pixel if plan else 0
        return JobStatus(
            job_id=workflow.info().workflow_id,
            idempotency_key=request.idempotency_key,
            status=self._status or FrameStatus.QUEUED,
            frame=request.frame_number,
            progress=self._progress(),
            tiles=TileCounts(
                total=tile_count(plan) if plan else 0,
                rendered=len(self._rendered),
                running=len(self._active),
                dead=len(self._dead),
            ),
            samples=SampleCounts(
                target=target, rendered=counts.samples_rendered, resumed=counts.samples_resumed
            ),
            attempts=AttemptCounts(
                total=counts.attempts, lost=counts.attempts_lost, yielded=counts.attempts_yielded
            ),
            error=self._last_failure,
            result=self._result,
            input_hash=plan.sample_key if plan else None,
            max_retries=(policies.TILE_RETRY.maximum_attempts or 0) - 1,
            progress_pointer=f"films/{plan.sample_key}/" if plan else None,
            created_at=self._created_at,
            updated_at=self._updated_at,
            engine=plan.engine if plan else None,
            warnings=plan.warnings if plan else (),
        )

    @workflow.signal(description="Stop rendering; films are kept")
    def pause(self) -> None:
        self._paused = True
        for task in self._active.values():
            task.cancel()
        self._enter(self._phase)

    @workflow.signal(description="Go on after a pause")
    def resume(self) -> None:
        self._paused = False
        self._enter(self._phase)

    @workflow.signal(description="Try a parked frame again")
    def retry(self) -> None:
        self._retry_asked = True

    @workflow.signal(description="When cancelled, also remove the films made so far")
    def discard_on_cancel(self) -> None:
        self._discard = True
