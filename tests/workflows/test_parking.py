"""What the frame workflow does about failures: rounds, isolation, dead letters, and parking."""

from __future__ import annotations

import pytest
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment

from contracts import (
    ErrorCode,
    FinalizeOutcome,
    FinalizeTask,
    FrameStatus,
    TileResult,
    TileTask,
)
from tests.workflows.farm import (
    RESULT,
    Farm,
    is_status,
    request,
    wait_for,
)
from workflows import policies
from workflows.frame import FrameWorkflow

FIRST = "x0000y0000w0016h0016"


async def test_a_tile_without_progress_is_isolated_then_dead_and_its_frame_parks(
    env: WorkflowEnvironment, client: Client
) -> None:
    farm = Farm(tiles=3)

    async def render(task: TileTask, kind: str) -> TileResult:
        if task.tiles[0].x == 0:
            raise ApplicationError("bang", type=ErrorCode.RENDERER_CRASHED)
        return await farm.rendered(task, kind)

    farm.render = render
    async with farm.running(client):
        handle = await farm.start(client, request())
        await env.sleep(1000)  # the delays of all retries
        status = await wait_for(handle, is_status(FrameStatus.DEAD_LETTERED), "parked")
        assert status.tiles.rendered == 2  # the neighbours are rendered
        assert status.tiles.dead == 1
        assert status.error is not None and status.error.code is ErrorCode.TILE_POISONOUS
        assert "bang" in status.error.message
        assert farm.attempts[f"{FIRST} tiles"] == policies.TILE_RETRY.maximum_attempts
        assert farm.attempts[f"{FIRST} isolated"] == policies.ISOLATED_RETRY.maximum_attempts
        assert [letter.failures[0].tile_id for letter in farm.letters] == [FIRST]

        farm.render = farm.rendered  # the machine is mended
        await handle.signal(FrameWorkflow.retry)
        assert await handle.result() == RESULT
    assert farm.letters == []
    assert farm.attempts["tile"] == 3 + 4 + 2


async def test_a_retry_of_one_tile_leaves_the_other_dead(env: WorkflowEnvironment, client: Client) -> None:
    farm = Farm(tiles=3)
    second = "x0016y0000w0016h0016"

    async def render(task: TileTask, kind: str) -> TileResult:
        if task.tiles[0].x < 32:
            raise ApplicationError("bang", type=ErrorCode.RENDERER_CRASHED)
        return await farm.rendered(task, kind)

    farm.render = render
    async with farm.running(client):
        handle = await farm.start(client, request())
        await env.sleep(1000)
        await wait_for(handle, lambda status: status.tiles.dead == 2, "two are dead")
        assert {failure.tile_id: failure.attempt for failure in farm.letters[0].failures} == {
            FIRST: 6,
            second: 6,
        }
        farm.render = farm.rendered
        await handle.signal(FrameWorkflow.retry, [second])
        status = await wait_for(handle, lambda status: status.tiles.rendered == 2, "one is tried again")
        status = await wait_for(handle, is_status(FrameStatus.DEAD_LETTERED), "parked again")
        assert status.tiles.dead == 1 and farm.attempts[f"{FIRST} tiles"] == 4
        await handle.signal(FrameWorkflow.retry, [FIRST])
        assert await handle.result() == RESULT


async def test_a_time_limit_ends_a_parked_frame(env: WorkflowEnvironment, client: Client) -> None:
    farm = Farm(tiles=2)

    async def render(task: TileTask, kind: str) -> TileResult:
        if task.tiles[0].x == 0:
            raise ApplicationError("bang", type=ErrorCode.RENDERER_CRASHED)
        return await farm.rendered(task, kind)

    farm.render = render
    async with farm.running(client):
        limited = request().model_copy(update={"park_limit_seconds": 3600})
        handle = await farm.start(client, limited)
        with pytest.raises(WorkflowFailureError) as raised:
            await handle.result()
        cause = raised.value.cause
        assert isinstance(cause, ApplicationError) and cause.type == ErrorCode.TILE_POISONOUS
        assert "3600 s without" in cause.message and "bang" in cause.message
        status = await handle.query(FrameWorkflow.status)
    assert status.status is FrameStatus.FAILED_TERMINAL
    assert farm.letters == []


async def test_progress_forgives_any_number_of_lost_workers(client: Client) -> None:
    farm = Farm(tiles=1)

    async def render(task: TileTask, kind: str) -> TileResult:
        if farm.attempts["tile"] <= 40:
            farm.newest[FIRST] = farm.newest.get(FIRST, 0) + 1
            raise ApplicationError("lost", type=ErrorCode.WORKER_LOST)
        assert kind == "tiles"
        return await farm.rendered(task, kind)

    farm.render = render
    async with farm.running(client):
        handle = await farm.start(client, request(samples=100))
        assert await handle.result() == RESULT
        status = await handle.query(FrameWorkflow.status)
    assert status.attempts.lost == 40
    assert farm.letters == []


async def test_a_step_that_outlasts_its_retries_parks_and_a_retry_ends_it(
    env: WorkflowEnvironment, client: Client
) -> None:
    farm = Farm(tiles=1)

    async def finalize(task: FinalizeTask) -> FinalizeOutcome:
        raise ApplicationError("the store is away", type=ErrorCode.STORAGE_UNAVAILABLE)

    farm.finalize = finalize
    async with farm.running(client):
        handle = await farm.start(client, request())
        await env.sleep(1000)  # the delays of all retries
        status = await wait_for(handle, is_status(FrameStatus.DEAD_LETTERED), "parked")
        assert farm.attempts["finalize"] == policies.STEP_RETRY.maximum_attempts
        assert status.error is not None and status.error.code is ErrorCode.STORAGE_UNAVAILABLE
        assert status.error.attempt == policies.STEP_RETRY.maximum_attempts
        farm.finalize = farm.published
        await handle.signal(FrameWorkflow.retry)
        assert await handle.result() == RESULT


async def test_cheap_tiles_share_an_activity_and_fall_apart_when_it_fails(
    env: WorkflowEnvironment, client: Client
) -> None:
    farm = Farm(tiles=7)
    farm.seconds_per_sample = 0.001

    async def render(task: TileTask, kind: str) -> TileResult:
        if any(tile.x == 16 for tile in task.tiles):
            raise ApplicationError("bang", type=ErrorCode.RENDERER_CRASHED)
        return await farm.rendered(task, kind)

    farm.render = render
    async with farm.running(client):
        handle = await farm.start(client, request())
        await env.sleep(1000)
        status = await wait_for(handle, is_status(FrameStatus.DEAD_LETTERED), "parked")
        farm.render = farm.rendered
        await handle.signal(FrameWorkflow.retry)
        assert await handle.result() == RESULT
    assert (status.tiles.rendered, status.tiles.dead) == (6, 1)
    assert farm.attempts[f"{FIRST} tiles"] == 4 + 1  # a round beside the bad one, then alone


async def test_cancelling_a_parked_frame_removes_its_dead_letter(
    env: WorkflowEnvironment, client: Client
) -> None:
    farm = Farm(tiles=1)

    async def render(task: TileTask, kind: str) -> TileResult:
        raise ApplicationError("bang", type=ErrorCode.RENDERER_CRASHED)

    farm.render = render
    async with farm.running(client):
        handle = await farm.start(client, request())
        await env.sleep(1000)
        await wait_for(handle, is_status(FrameStatus.DEAD_LETTERED), "parked")
        assert farm.letters
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await handle.result()
    assert farm.letters == []


async def test_a_tile_that_the_store_fails_is_never_given_up(
    env: WorkflowEnvironment, client: Client
) -> None:
    farm = Farm(tiles=1)

    async def render(task: TileTask, kind: str) -> TileResult:
        assert kind == "tiles"
        if farm.attempts["tile"] <= 5 * 4:
            raise ApplicationError("no space", type=ErrorCode.STORAGE_FULL)
        return await farm.rendered(task, kind)

    farm.render = render
    async with farm.running(client):
        handle = await farm.start(client, request())
        assert await handle.result() == RESULT
        status = await handle.query(FrameWorkflow.status)
    assert farm.letters == []
    assert status.attempts.lost == 20


async def test_so_many_dead_tiles_are_the_farms_fault(env: WorkflowEnvironment, client: Client) -> None:
    farm = Farm(tiles=policies.DEAD_LIMIT + 2 * policies.WINDOW)

    async def render(task: TileTask, kind: str) -> TileResult:
        raise ApplicationError("x" * 5000, type=ErrorCode.RENDERER_CRASHED)

    farm.render = render
    async with farm.running(client):
        handle = await farm.start(client, request())
        await env.sleep(100_000)
        status = await wait_for(handle, is_status(FrameStatus.DEAD_LETTERED), "parked")
    assert policies.DEAD_LIMIT <= status.tiles.dead < policies.DEAD_LIMIT + policies.WINDOW


async def test_films_that_vanish_again_and_again_park_the_frame(
    env: WorkflowEnvironment, client: Client
) -> None:
    farm = Farm(tiles=3)

    async def finalize(task: FinalizeTask) -> FinalizeOutcome:
        return FinalizeOutcome(missing=(1,))

    farm.finalize = finalize
    async with farm.running(client):
        handle = await farm.start(client, request())
        status = await wait_for(handle, is_status(FrameStatus.DEAD_LETTERED), "parked")
    assert status.error is not None and "x0016y0000w0016h0016" in status.error.message
    assert farm.attempts["finalize"] == 2


async def test_films_that_vanish_in_turn_park_the_frame_too(env: WorkflowEnvironment, client: Client) -> None:
    """As where somebody removes whatever film is the oldest: it is another one each time."""
    farm = Farm(tiles=3)

    async def finalize(task: FinalizeTask) -> FinalizeOutcome:
        return FinalizeOutcome(missing=(farm.attempts["finalize"] % 3,))

    farm.finalize = finalize
    async with farm.running(client):
        handle = await farm.start(client, request())
        await wait_for(handle, is_status(FrameStatus.DEAD_LETTERED), "parked")
        await handle.terminate()
    assert farm.attempts["finalize"] == 4
