"""Steering a running frame: answered, refused with the reason, and the same twice as once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest
import pytest_asyncio
from temporalio import activity
from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from contracts import (
    FinalizeOutcome,
    FinalizeTask,
    FrameStatus,
    TileOutcome,
    TileResult,
    TileTask,
)
from tests.workflows.farm import RESULT, Farm, is_status, real_server, request, wait_for
from workflows import policies
from workflows.frame import FrameWorkflow

pytestmark = pytest.mark.asyncio(loop_scope="module")

FIRST, SECOND = "x0000y0000w0016h0016", "x0016y0000w0016h0016"
ANSWER_SECONDS = 1.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[Client]:
    async with real_server() as client:
        yield client


async def refusal(update: Awaitable[Any]) -> str:
    with pytest.raises(WorkflowUpdateFailedError) as caught:
        await update
    assert isinstance(caught.value.cause, ApplicationError)
    return caught.value.cause.message


async def test_pause_and_resume_are_answered_at_once_and_twice_is_once(server: Client) -> None:
    farm = Farm(tiles=3)
    farm.render = farm.until_stopped
    async with farm.running(server):
        handle = await farm.start(server, request())
        await wait_for(handle, lambda status: status.tiles.running == 3, "tiles run")
        times = []
        for update, wanted in (
            (FrameWorkflow.pause_now, FrameStatus.PAUSED),
            (FrameWorkflow.pause_now, FrameStatus.PAUSED),
            (FrameWorkflow.resume_now, FrameStatus.RUNNING),
            (FrameWorkflow.resume_now, FrameStatus.RUNNING),
        ):
            began = time.monotonic()
            assert (await handle.execute_update(update)).status is wanted
            times.append(time.monotonic() - began)
        assert min(times) < ANSWER_SECONDS
        assert (await handle.execute_update("pause", result_type=dict))["status"] == "paused"  # by its name
        await handle.cancel()


async def test_what_makes_no_sense_is_refused_with_the_reason(server: Client) -> None:
    farm, publish = Farm(tiles=3), asyncio.Event()

    async def published(task: FinalizeTask) -> FinalizeOutcome:
        while not publish.is_set():
            activity.heartbeat()
            await asyncio.sleep(0.05)
        return FinalizeOutcome(result=RESULT)

    farm.finalize = published
    async with farm.running(server):
        handle = await farm.start(server, request(samples=8))
        await wait_for(handle, is_status(FrameStatus.FINALIZING), "finalizing")
        assert "nothing renders any more" in await refusal(handle.execute_update(FrameWorkflow.pause_now))
        assert "only a dead-lettered one" in await refusal(handle.execute_update(FrameWorkflow.retry_now))
        priority = await refusal(handle.execute_update(FrameWorkflow.set_priority_now, 70))
        assert "no tile is to come" in priority
        for samples in (8, 3, 1 << 30):
            more = await refusal(handle.execute_update(FrameWorkflow.more_samples, samples))
            assert "more than the frame's 8" in more
        publish.set()
        assert await handle.result() == RESULT


async def test_a_dead_tile_is_retried_by_its_name_and_no_other(server: Client) -> None:
    farm = Farm(tiles=3)

    async def poisonous(task: TileTask, kind: str) -> TileResult:
        if task.tiles[0].x < 32:  # no delay between the attempts of a round
            raise ApplicationError("bang", type="bang", next_retry_delay=policies.HEARTBEAT_THROTTLE / 20)
        return await farm.rendered(task, kind)

    farm.render = poisonous
    async with farm.running(server):
        handle = await farm.start(server, request())
        status = await wait_for(handle, is_status(FrameStatus.DEAD_LETTERED), "parked")
        assert status.dead_tiles == (FIRST, SECOND)
        paused = await refusal(handle.execute_update(FrameWorkflow.pause_now))
        assert "retry or cancel it" in paused
        assert "x9 is no dead tile" in await refusal(
            handle.execute_update(FrameWorkflow.retry_now, ["x9", FIRST])
        )
        farm.render = farm.rendered
        await asyncio.gather(
            handle.signal(FrameWorkflow.retry, [FIRST]), handle.signal(FrameWorkflow.retry, [SECOND])
        )
        status = await wait_for(handle, lambda s: s.tiles.rendered >= 2, "tried again")
        if status.status is FrameStatus.DEAD_LETTERED:  # the second came when the first was taken up
            await handle.execute_update(FrameWorkflow.retry_now)
        assert await handle.result() == RESULT


async def test_a_new_priority_is_that_of_the_next_tiles(server: Client) -> None:
    farm, go_on = Farm(tiles=policies.WINDOW + 8), asyncio.Event()
    keys: list[int | None] = []

    async def render(task: TileTask, kind: str) -> TileResult:
        keys.append(activity.info().priority.priority_key)
        while not go_on.is_set():
            activity.heartbeat()
            await asyncio.sleep(0.05)
        return TileResult(outcome=TileOutcome.RENDERED, finished=1)

    farm.render = render
    async with farm.running(server):
        handle = await farm.start(server, request())
        for _ in range(600):
            if len(keys) == policies.WINDOW:
                break
            await asyncio.sleep(0.05)
        for bad in (-1, 101):
            assert "no priority" in await refusal(handle.execute_update(FrameWorkflow.set_priority_now, bad))
            await handle.signal(FrameWorkflow.set_priority, bad)  # harmless
        await handle.execute_update(FrameWorkflow.set_priority_now, 99)
        go_on.set()
        await handle.result()
    assert set(keys[: policies.WINDOW]) == {3}
    assert keys[policies.WINDOW :] == [1] * 8


async def test_more_samples_is_another_frame_that_goes_on_from_the_films(server: Client) -> None:
    farm, go_on = Farm(tiles=2), asyncio.Event()
    targets: set[int] = set()

    async def render(task: TileTask, kind: str) -> TileResult:
        targets.add(task.samples)
        while task.samples == 8 and not go_on.is_set():
            activity.heartbeat()
            await asyncio.sleep(0.05)
        return TileResult(outcome=TileOutcome.RENDERED, finished=1)

    farm.render = render
    asked = request(samples=8)
    async with farm.running(server):
        handle = await farm.start(server, asked)
        await wait_for(handle, lambda status: status.tiles.running == 2, "tiles run")
        ids: list[Any] = [await handle.execute_update(FrameWorkflow.more_samples, 64) for _ in range(2)]
        refined = asked.model_copy(update={"samples_per_pixel": 64})
        assert ids == [refined.job_id] * 2
        assert await server.get_workflow_handle(refined.job_id).result() == RESULT.model_dump()
        assert farm.jobs[0].idempotency_key == refined.idempotency_key
        go_on.set()
        assert await handle.result() == RESULT
    assert targets == {8, 64}
