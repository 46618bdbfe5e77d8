"""The window of tiles: keeps a bounded number of them running until each is rendered or dead.

A tile is given up only when it stops making progress. A round is a bounded number of attempts; a round
that fails with a newer checkpoint than it began with is forgiven; one without sends the tile to the
isolated queue, where it can kill nothing but itself; another one without progress there makes it dead.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

from workflows import policies, queues
from workflows.failures import to_failure
from workflows.state import FrameState
from workflows.tiling import tile_at

with workflow.unsafe.imports_passed_through():
    from contracts import ErrorCode, Failure, FramePlan, TileOutcome, TileResult, TileTask


class TileWindow:
    """Renders the tiles of one plan. What it learns goes into the frame's state."""

    def __init__(self, state: FrameState, plan: FramePlan) -> None:
        self._state = state
        self._plan = plan
        self._waiting: deque[int] = deque()
        self._active: dict[int, asyncio.Task[None]] = {}
        self._rounds: Counter[int] = Counter()

    @property
    def running(self) -> int:
        return len(self._active)

    async def run_until_change(self) -> bool:
        """Starts what may start and waits until a tile has ended. False: no tile is left to render.

        Also returns when the history is long enough and the window is empty: see `drained`. Raises the
        ActivityError that ends the frame.
        """
        state = self._state
        if not self._active:  # also takes up tiles that a retry or a lost film put back
            self._waiting = deque(n for n in range(state.tiles_total) if self._is_open(n))
        while self._may_start():
            number = self._waiting.popleft()
            self._active[number] = asyncio.create_task(self._render(number))
        if not self._waiting and not self._active:
            return False
        await workflow.wait_condition(lambda: self._may_start() or self._any_ended() or self.drained)
        for number in [n for n, task in self._active.items() if task.done()]:
            self._active.pop(number).result()
            if self._is_open(number):
                self._waiting.appendleft(number)
        return True

    @property
    def drained(self) -> bool:
        """It is time to continue as new, and nothing runs that would have to be carried over."""
        return _history_is_long() and not self._active

    def interrupt(self) -> None:
        """Asks running tiles to stop at their next slice and to keep what they have."""
        for task in self._active.values():
            task.cancel()

    async def stop(self) -> None:
        """Interrupts, and waits until every tile has stopped."""
        self.interrupt()
        await asyncio.gather(*self._active.values(), return_exceptions=True)

    def _is_open(self, number: int) -> bool:
        return number not in self._state.rendered and number not in self._state.dead

    def _may_start(self) -> bool:
        room = len(self._active) < policies.WINDOW
        return bool(self._waiting) and room and not self._state.paused and not _history_is_long()

    def _any_ended(self) -> bool:
        return any(task.done() for task in self._active.values())

    async def _render(self, number: int) -> None:
        """One tile until it is rendered or dead, or until the frame pauses or drains."""
        state = self._state
        task = TileTask(
            job_id=workflow.info().workflow_id,
            sample_key=self._plan.sample_key,
            tile=tile_at(self._plan, number),
            samples=state.request.samples_per_pixel,
        )
        while self._is_open(number) and not state.paused and not _history_is_long():
            try:
                outcome = await self._round(number, task)
            except ActivityError as error:
                if not is_cancelled_exception(error):
                    raise
                return  # stopped before it began
            if outcome is TileOutcome.STOPPED:
                return

    async def _round(self, number: int, task: TileTask) -> TileOutcome | None:
        """One bounded round of attempts, and what follows from it. None: it failed and was judged."""
        alone = number in self._state.isolated
        try:
            result = await self._attempts(number, task, alone)
        except ActivityError as error:
            failure = to_failure(error, task.tile.tile_id)
            if is_cancelled_exception(error) or failure.code.is_terminal:
                raise
            await self._judge(number, task, failure, alone)
            return None
        yielded = result.outcome is TileOutcome.YIELDED  # its worker leaves; another one goes on at once
        self._state.count(
            attempts=result.attempt, attempts_lost=result.attempt - 1, attempts_yielded=int(yielded)
        )
        if result.outcome is TileOutcome.RENDERED:
            self._state.rendered.add(number)
            self._state.standing.pop(number, None)
            self._state.isolated.discard(number)
            self._state.count(
                samples_resumed=result.resumed * task.tile.area,
                samples_rendered=(result.samples - result.resumed) * task.tile.area,
            )
        return result.outcome

    async def _attempts(self, number: int, task: TileTask, alone: bool) -> TileResult:
        self._rounds[number] += 1  # an attempt_id must not repeat within a run
        engine, tile_id = self._plan.engine, task.tile.tile_id
        result: TileResult = await workflow.execute_activity(
            "render_tile",
            task,
            result_type=TileResult,
            task_queue=queues.isolated(engine) if alone else queues.tiles(engine),
            activity_id=f"{tile_id}.{self._rounds[number]}",
            summary=f"tile {tile_id} to {task.samples} samples" + (", alone" if alone else ""),
            start_to_close_timeout=policies.ATTEMPT_TIMEOUT,
            heartbeat_timeout=policies.HEARTBEAT_TIMEOUT,
            retry_policy=policies.ISOLATED_RETRY if alone else policies.TILE_RETRY,
            priority=policies.priority(self._state.request),
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )
        return result

    async def _judge(self, number: int, task: TileTask, failure: Failure, alone: bool) -> None:
        """A round failed. The store says how far the tile is, and that decides."""
        state = self._state
        attempts = (policies.ISOLATED_RETRY if alone else policies.TILE_RETRY).maximum_attempts
        state.count(attempts=attempts, attempts_lost=attempts)
        state.last_failure = failure
        newest: int = await workflow.execute_activity(
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
        if newest > state.standing.get(number, 0):
            state.standing[number] = newest
            state.isolated.discard(number)
        elif not alone:
            state.isolated.add(number)
        else:
            state.isolated.discard(number)
            state.dead[number] = failure.model_copy(
                update={
                    "code": ErrorCode.TILE_POISONOUS,
                    "message": f"no progress in a full round nor in isolation, stands at {newest} of "
                    f"{task.samples} samples; last: {failure.code}: {failure.message}",
                }
            )


def _history_is_long() -> bool:
    """Temporal suggests to continue as new: start nothing more, and go on in a new run once all ended."""
    return workflow.info().is_continue_as_new_suggested()
