"""The window of tiles: keeps a bounded number of them running until each is rendered or dead.

A tile is given up only when it stops making progress. A round is a bounded number of attempts; a round
that fails with a newer checkpoint than it began with is forgiven; one without sends the tile to the
isolated queue, where it can kill nothing but itself; another one without progress there makes it dead.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, RetryState, is_cancelled_exception

from workflows import metrics, policies, queues
from workflows.failures import to_failure
from workflows.state import FrameState
from workflows.tiling import group_size, place, tile_at

with workflow.unsafe.imports_passed_through():
    from contracts import ErrorCode, Failure, FramePlan, TileOutcome, TileResult, TileTask


Group = tuple[int, ...]
"""Numbers of tiles that one activity renders."""


class TileWindow:
    """Renders the tiles of one plan. What it learns goes into the frame's state.

    Works in groups of tile numbers: cheap tiles share an activity, and a group that fails falls apart
    into single tiles, so that judging and isolating only ever meet one tile.
    """

    def __init__(self, state: FrameState, plan: FramePlan) -> None:
        self._state = state
        self._plan = plan
        self._waiting: deque[int] = deque()
        self._active: dict[Group, asyncio.Task[None]] = {}
        self._rounds: Counter[Group] = Counter()
        self._single: set[int] = set()
        self._group_size = group_size(plan, state.request.samples_per_pixel)

    @property
    def running(self) -> int:
        """Tiles that are with workers, or wait in the queue for one."""
        return sum(len(group) for group in self._active)

    async def run_until_change(self) -> bool:
        """Starts what may start and waits until a tile has ended. False: no tile is left to render.

        Also returns when the history is long enough and the window is empty: see `drained`. Raises the
        ActivityError that ends the frame.
        """
        if not self._active:  # also takes up tiles that a retry or a lost film put back
            self._waiting = deque(n for n in range(self._state.tiles_total) if self._is_open(n))
        while self._may_start():
            group = self._next_group()
            self._active[group] = asyncio.create_task(self._render(group))
        if not self._active and (not self._waiting or self._too_many_dead()):
            return False
        await workflow.wait_condition(lambda: self._may_start() or self._any_ended() or self.drained)
        for group in [g for g, task in self._active.items() if task.done()]:
            self._active.pop(group).result()
            self._waiting.extendleft(n for n in reversed(group) if self._is_open(n))
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
        self._active.clear()

    def _is_open(self, number: int) -> bool:
        return number not in self._state.rendered and number not in self._state.dead

    def _may_start(self) -> bool:
        room = len(self._active) < policies.WINDOW
        held = self._state.paused or _history_is_long() or self._too_many_dead()
        return bool(self._waiting) and room and not held

    def _too_many_dead(self) -> bool:
        return len(self._state.dead) >= policies.DEAD_LIMIT

    def _any_ended(self) -> bool:
        return any(task.done() for task in self._active.values())

    def _next_group(self) -> Group:
        group = [self._waiting.popleft()]
        while self._waiting and len(group) < self._group_size and not self._is_single(group[0]):
            if self._is_single(self._waiting[0]):
                break
            group.append(self._waiting.popleft())
        return tuple(group)

    def _is_single(self, number: int) -> bool:
        return number in self._single or number in self._state.isolated

    async def _render(self, group: Group) -> None:
        """A group until it is rendered, or a single tile is dead, or until the frame pauses or drains."""
        while group and not self._state.paused and not _history_is_long() and not is_being_cancelled():
            task = TileTask(
                job_id=workflow.info().workflow_id,
                sample_key=self._plan.sample_key,
                tiles=tuple(tile_at(self._plan, number) for number in group),
                samples=self._state.request.samples_per_pixel,
            )
            try:
                outcome = await self._round(group, task)
            except ActivityError as error:
                if not is_cancelled_exception(error):
                    raise
                return  # stopped before it began
            except asyncio.CancelledError:
                return  # stopped between two rounds
            if outcome is not TileOutcome.YIELDED:
                return
            group = tuple(number for number in group if self._is_open(number))

    async def _round(self, group: Group, task: TileTask) -> TileOutcome | None:
        """One bounded round of attempts, and what follows from it. None: it failed, and that is settled."""
        alone = group[0] in self._state.isolated
        try:
            result = await self._attempts(group, task, alone)
        except ActivityError as error:
            failure = to_failure(error, task.tiles[0].tile_id)
            if is_cancelled_exception(error) or failure.code.is_terminal:
                raise
            self._state.last_failure = failure
            metrics.round_ended("failed", alone)
            reason = {"tile_id": failure.tile_id, "code": failure.code, "error": failure.message}
            workflow.logger.warning("round failed", extra=reason | {"alone": alone})
            used_up = error.retry_state == RetryState.MAXIMUM_ATTEMPTS_REACHED
            attempts = _round_policy(alone).maximum_attempts if used_up else failure.attempt
            self._state.count(attempts=attempts, attempts_lost=attempts)
            self._state.count_attempts(group, attempts)
            await self._settle(group, task, failure, alone)
            return None
        metrics.round_ended(result.outcome, alone)
        finished = group[: result.finished]
        self._state.rendered.update(finished)
        self._state.worker_of.update(dict.fromkeys(finished, result.worker))
        self._state.count_attempts(group, result.attempt)
        for number in finished:
            self._state.standing.pop(number, None)
            self._state.isolated.discard(number)
        samples = sum(tile.area for tile in task.tiles[: result.finished]) * task.samples
        self._state.count(
            attempts=result.attempt,
            attempts_lost=result.attempt - 1,
            attempts_yielded=int(result.outcome is TileOutcome.YIELDED),
            samples_resumed=result.resumed,
            samples_rendered=samples - result.resumed,
        )
        return result.outcome

    async def _attempts(self, group: Group, task: TileTask, alone: bool) -> TileResult:
        self._rounds[group] += 1  # an attempt_id must not repeat within a run
        engine, names = self._plan.engine, " ".join(tile.tile_id for tile in task.tiles)
        result: TileResult = await workflow.execute_activity(
            "render_tile",
            task,
            result_type=TileResult,
            task_queue=queues.isolated(engine) if alone else queues.tiles(engine),
            activity_id=f"{task.tiles[0].tile_id}.{self._rounds[group]}",
            summary=f"tile {names} {place(self._plan, group[0])}, to {task.samples} samples"
            + (", alone" if alone else ""),
            start_to_close_timeout=policies.ATTEMPT_TIMEOUT,
            heartbeat_timeout=policies.HEARTBEAT_TIMEOUT,
            retry_policy=_round_policy(alone),
            priority=policies.priority(self._state.request),
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )
        return result

    async def _settle(self, group: Group, task: TileTask, failure: Failure, alone: bool) -> None:
        """What follows from a round that failed."""
        if is_being_cancelled():  # the round ended because of that, and says nothing of the tile
            return
        if failure.code in (ErrorCode.STORAGE_UNAVAILABLE, ErrorCode.STORAGE_FULL):
            await asyncio.sleep(policies.STORAGE_PAUSE.total_seconds())
        elif len(group) > 1:
            self._single.update(group)
        else:
            await self._judge(group[0], task, failure, alone)

    async def _judge(self, number: int, task: TileTask, failure: Failure, alone: bool) -> None:
        """A tile's round failed. The store says how far the tile is, and that decides."""
        state = self._state
        newest: int = await workflow.execute_activity(
            "newest_samples",
            task,
            result_type=int,
            task_queue=queues.SERVICE,
            summary=f"how far is {task.tiles[0].tile_id}",
            start_to_close_timeout=policies.ATTEMPT_TIMEOUT,
            heartbeat_timeout=policies.HEARTBEAT_TIMEOUT,
            retry_policy=policies.JUDGE_RETRY,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )
        progress = {"tile_id": task.tiles[0].tile_id, "samples": newest}
        if newest > state.standing.get(number, 0):
            state.standing[number] = newest
            state.isolated.discard(number)
            workflow.logger.info("tile made progress, another round", extra=progress)
        elif not alone:
            state.isolated.add(number)
            workflow.logger.warning("tile made no progress, it runs alone", extra=progress)
        else:
            workflow.logger.error("tile made no progress alone either, it is dead", extra=progress)
            state.isolated.discard(number)
            state.dead[number] = failure.model_copy(
                update={
                    "code": ErrorCode.TILE_POISONOUS,
                    "attempt": state.attempts[number],
                    "message": f"no progress in a full round nor in isolation, stands at {newest} of "
                    f"{task.samples} samples; last: {failure.code}: {failure.message[:200]}",
                }
            )


def _round_policy(alone: bool) -> RetryPolicy:
    return policies.ISOLATED_RETRY if alone else policies.TILE_RETRY


def is_being_cancelled() -> bool:
    """Whether somebody has cancelled the task that runs. An activity that completes all the same swallows
    the CancelledError, so that no exception tells of it."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _history_is_long() -> bool:
    """Temporal suggests to continue as new: start nothing more, and go on in a new run once all ended."""
    return workflow.info().is_continue_as_new_suggested()
