"""What the frame workflow decides, with scripted activities on the time-skipping server."""

from __future__ import annotations

import asyncio

import pytest
from temporalio import activity
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import ApplicationError, CancelledError

from contracts import (
    ErrorCode,
    FinalizeOutcome,
    FinalizeTask,
    FramePlan,
    FrameRequest,
    FrameStatus,
    TileOutcome,
    TileResult,
    TileTask,
)
from tests.workflows.farm import (
    RESULT,
    Farm,
    is_status,
    real_server,
    request,
    wait_for,
    wait_for_event,
)
from workflows import policies
from workflows.frame import FrameWorkflow

FIRST = "x0000y0000w0016h0016"


async def test_a_frame_completes_and_counts_every_sample(client: Client) -> None:
    farm = Farm(tiles=5)
    async with farm.running(client):
        handle = await farm.start(client, request(samples=8))
        assert await handle.result() == RESULT
        status = await handle.query(FrameWorkflow.status)
    assert status.status is FrameStatus.COMPLETED
    assert status.progress == 1.0
    assert status.samples.rendered == status.samples.target == 5 * 16 * 16 * 8
    assert (status.tiles.rendered, status.attempts.total, status.attempts.lost) == (5, 5, 0)
    assert farm.attempts["finalize"] == 1


async def test_a_yielded_tile_goes_on_elsewhere_without_spending_an_attempt(client: Client) -> None:
    farm = Farm(tiles=2)

    async def render(task: TileTask, kind: str) -> TileResult:
        if (
            farm.attempts[f"{FIRST} tiles"] <= 6 and task.tiles[0].x == 0
        ):  # more often than a round has attempts
            return TileResult(outcome=TileOutcome.YIELDED, finished=0)
        assert activity.info().attempt == 1
        return TileResult(outcome=TileOutcome.RENDERED, finished=1, resumed=3 * 256)

    farm.render = render
    async with farm.running(client):
        handle = await farm.start(client, request(samples=8))
        await handle.result()
        status = await handle.query(FrameWorkflow.status)
    assert status.attempts.yielded == 6
    assert status.attempts.lost == 0
    assert status.samples.resumed == 2 * 3 * 256
    assert status.samples.rendered + status.samples.resumed == status.samples.target


async def test_a_terminal_error_gets_exactly_one_attempt(client: Client) -> None:
    farm = Farm()

    async def prepare(asked: FrameRequest) -> FramePlan:
        raise ApplicationError("no such thing", type=ErrorCode.SCENE_INVALID)

    farm.prepare = prepare
    async with farm.running(client):
        handle = await farm.start(client, request())
        with pytest.raises(WorkflowFailureError) as caught:
            await handle.result()
        status = await handle.query(FrameWorkflow.status)
    cause = caught.value.cause
    assert isinstance(cause, ApplicationError)
    assert (cause.type, farm.attempts["prepare"]) == (ErrorCode.SCENE_INVALID, 1)
    assert status.status is FrameStatus.FAILED_TERMINAL
    assert status.error is not None and "no such thing" in status.error.message


async def test_a_terminal_error_of_one_tile_stops_the_others(client: Client) -> None:
    farm = Farm(tiles=3)

    async def render(task: TileTask, kind: str) -> TileResult:
        if task.tiles[0].x == 0:
            raise ApplicationError("two films", type=ErrorCode.NONDETERMINISTIC)
        return await farm.until_stopped(task, kind)

    farm.render = render
    async with farm.running(client):
        handle = await farm.start(client, request())
        with pytest.raises(WorkflowFailureError):
            await handle.result()
    assert farm.attempts[f"{FIRST} tiles"] == 1
    assert farm.attempts["finalize"] == 0


async def test_pause_stops_tiles_and_resume_goes_on(client: Client) -> None:
    farm = Farm(tiles=3)
    farm.render = farm.until_stopped
    async with farm.running(client):
        handle = await farm.start(client, request())
        await wait_for(handle, lambda status: status.tiles.running == 3, "tiles run")
        await handle.signal(FrameWorkflow.pause)
        await wait_for(handle, lambda s: s.status is FrameStatus.PAUSED and s.tiles.running == 0, "paused")
        attempts = farm.attempts["tile"]
        farm.render = farm.rendered
        await handle.signal(FrameWorkflow.pause)  # twice is once
        assert farm.attempts["tile"] == attempts
        await handle.signal(FrameWorkflow.resume)
        assert await handle.result() == RESULT


@pytest.mark.parametrize("discard", [False, True])
async def test_cancel_stops_tiles_and_ends_cancelled(client: Client, discard: bool) -> None:
    farm = Farm(tiles=3)
    farm.render = farm.until_stopped
    async with farm.running(client):
        handle = await farm.start(client, request())
        await wait_for(handle, lambda status: status.tiles.running == 3, "tiles run")
        if discard:
            await handle.signal(FrameWorkflow.discard_on_cancel)
        await handle.cancel()
        with pytest.raises(WorkflowFailureError) as caught:
            await handle.result()
        status = await handle.query(FrameWorkflow.status)
    assert isinstance(caught.value.cause, CancelledError)
    assert status.status is FrameStatus.CANCELLED
    assert farm.attempts["tile"] == 3
    assert farm.discarded is discard


async def test_cancel_while_paused(client: Client) -> None:
    farm = Farm(tiles=3)
    farm.render = farm.until_stopped
    async with farm.running(client):
        handle = await farm.start(client, request())
        await handle.signal(FrameWorkflow.pause)
        await wait_for(handle, is_status(FrameStatus.PAUSED), "paused")
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await handle.result()
    assert farm.attempts["finalize"] == 0


async def test_a_tile_whose_film_was_lost_is_rendered_again(client: Client) -> None:
    farm = Farm(tiles=3)

    async def finalize(task: FinalizeTask) -> FinalizeOutcome:
        missing = () if farm.attempts["finalize"] > 1 else (1,)
        return FinalizeOutcome(missing=missing) if missing else FinalizeOutcome(result=RESULT)

    farm.finalize = finalize
    async with farm.running(client):
        handle = await farm.start(client, request())
        assert await handle.result() == RESULT
        status = await handle.query(FrameWorkflow.status)
    assert status.samples.rendered == status.samples.target
    assert farm.attempts["tile"] == 4
    assert farm.attempts["x0016y0000w0016h0016 tiles"] == 2


async def test_never_more_than_the_window_is_pending(client: Client) -> None:
    farm = Farm(tiles=3 * policies.WINDOW)
    gate = asyncio.Event()

    async def render(task: TileTask, kind: str) -> TileResult:
        await gate.wait()
        return await farm.rendered(task, kind)

    farm.render = render
    async with farm.running(client):
        handle = await farm.start(client, request())
        await wait_for(handle, lambda s: s.tiles.running == policies.WINDOW, "the window is full")
        gate.set()
        assert await handle.result() == RESULT
    assert farm.attempts["tile"] == 3 * policies.WINDOW


async def test_a_group_that_yields_half_way_goes_on_with_the_rest(client: Client) -> None:
    farm = Farm(tiles=2)
    farm.seconds_per_sample = 0.001

    async def render(task: TileTask, kind: str) -> TileResult:
        if len(task.tiles) == 2:
            return TileResult(outcome=TileOutcome.YIELDED, finished=1)
        return await farm.rendered(task, kind)

    farm.render = render
    async with farm.running(client):
        handle = await farm.start(client, request())
        assert await handle.result() == RESULT
        status = await handle.query(FrameWorkflow.status)
    assert farm.attempts[f"{FIRST} tiles"] == 1
    assert status.samples.rendered == status.samples.target


async def test_a_cancel_that_an_activity_swallows_still_ends_the_frame(client: Client) -> None:
    """An activity that does not notice the cancel completes all the same, and no exception tells of it."""
    farm, gate = Farm(tiles=1), asyncio.Event()

    async def prepare(asked: FrameRequest) -> FramePlan:
        await gate.wait()
        return await farm.planned(asked)

    farm.prepare = prepare
    async with farm.running(client):
        handle = await farm.start(client, request())
        await wait_for(handle, lambda status: farm.attempts["prepare"] == 1, "preparing")
        await handle.cancel()
        await wait_for_event(handle, "activity_task_cancel_requested_event_attributes")
        gate.set()
        with pytest.raises(WorkflowFailureError) as caught:
            await handle.result()
    assert isinstance(caught.value.cause, CancelledError)
    assert farm.attempts["tile"] == 0


async def test_an_attempt_that_fails_while_the_frame_pauses_is_not_held_against_its_tile() -> None:
    farm, gate = Farm(tiles=1), asyncio.Event()

    async def render(task: TileTask, kind: str) -> TileResult:
        assert kind == "tiles"
        if farm.attempts["tile"] > 1:
            return await farm.rendered(task, kind)
        await gate.wait()
        raise ApplicationError("died of the pause", type=ErrorCode.WORKER_LOST)

    farm.render = render
    async with real_server() as client, farm.running(client):
        handle = await farm.start(client, request())
        await wait_for(handle, lambda status: farm.attempts["tile"] == 1, "the tile runs")
        await handle.signal(FrameWorkflow.pause)
        await wait_for_event(handle, "activity_task_cancel_requested_event_attributes")
        gate.set()
        await wait_for(handle, lambda s: s.status is FrameStatus.PAUSED and s.tiles.running == 0, "paused")
        await handle.signal(FrameWorkflow.resume)
        assert await handle.result() == RESULT
        status = await handle.query(FrameWorkflow.status)
    assert (status.attempts.total, status.attempts.lost) == (2, 1)
