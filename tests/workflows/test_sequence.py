"""Which frames a sequence renders, and what it makes of how they end; with scripted activities."""

from __future__ import annotations

import pytest
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import ApplicationError

from contracts import (
    ErrorCode,
    SequenceReport,
    SequenceStatus,
)
from tests.workflows.farm import RESULT, Farm, wait_for, wait_for_sequence
from tests.workflows.sequences import Rendered, poison, sequence
from workflows import policies
from workflows.sequence import SequenceWorkflow
from workflows.tiling import from_ranges

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_every_frame_is_rendered_once_and_published_ones_are_skipped(server: Client) -> None:
    farm = Farm(tiles=1)
    farm.published_numbers = {2, 3, 9}
    seen = Rendered(farm)
    async with farm.running(server):
        handle = await farm.start_sequence(server, sequence("skips", (9, 9, 1), (1, 20, 1)))
        report = await handle.result()
    assert report.status is SequenceStatus.COMPLETED and report.progress == 1.0
    assert from_ranges(report.published) == set(range(1, 21))
    assert sorted(seen.numbers) == sorted(set(range(1, 21)) - {2, 3, 9})
    assert farm.attempts["lookup"] == 1


async def test_never_more_than_the_window_runs(server: Client) -> None:
    farm = Farm(tiles=1)
    seen = Rendered(farm)
    seen.hold(*range(1, 31))
    async with farm.running(server):
        handle = await farm.start_sequence(server, sequence("window", (1, 30, 1)))
        await wait_for_sequence(handle, lambda r: seen.at_once == policies.SEQUENCE_WINDOW, "full")
        seen.let_go()
        report = await handle.result()
    assert report.frames.published == 30
    assert seen.most == policies.SEQUENCE_WINDOW


async def test_one_bad_frame_stops_no_other_and_is_named(server: Client) -> None:
    farm = Farm(tiles=1)
    seen = Rendered(farm)
    seen.bad = {4: ErrorCode.SCENE_INVALID}
    async with farm.running(server):
        handle = await farm.start_sequence(server, sequence("bad", (1, 12, 1)))
        with pytest.raises(WorkflowFailureError) as caught:
            await handle.result()
        report = await handle.query(SequenceWorkflow.status)
        cause = caught.value.cause
        assert isinstance(cause, ApplicationError) and cause.type == ErrorCode.SCENE_INVALID
        assert "11 of 12 frames are published; frame 4 (scene_invalid: frame 4 is bad)" in cause.message
        assert SequenceReport.model_validate(cause.details[0]) == report
        assert report.status is SequenceStatus.FAILED_TERMINAL
        assert from_ranges(report.published) == set(range(1, 13)) - {4}

        seen.bad = {}  # submitted again, it renders what is missing
        farm.published_numbers = set(range(1, 13)) - {4}
        seen.numbers.clear()
        handle = await farm.start_sequence(server, sequence("bad", (1, 12, 1)))
        assert (await handle.result()).frames.published == 12
    assert seen.numbers == [4]


async def test_a_retry_takes_up_failed_frames_while_the_sequence_runs(server: Client) -> None:
    farm = Farm(tiles=1)
    seen = Rendered(farm)
    seen.bad = {1: ErrorCode.SCENE_INVALID}
    seen.hold(3)
    async with farm.running(server):
        handle = await farm.start_sequence(server, sequence("again", (1, 3, 1)))
        await wait_for_sequence(handle, lambda r: r.frames.failed == 1, "one failed")
        seen.bad = {}
        await handle.signal(SequenceWorkflow.retry)
        await wait_for_sequence(handle, lambda r: r.frames.published == 2, "it is rendered")
        seen.let_go()
        report = await handle.result()
    assert (report.frames.published, report.failures) == (3, {})


async def test_dead_lettered_frames_wait_for_a_retry_of_the_whole(server: Client) -> None:
    farm = Farm(tiles=1)
    poison(farm, 2)
    async with farm.running(server):
        handle = await farm.start_sequence(server, sequence("parks", (1, 10, 1)))
        report = await wait_for_sequence(
            handle, lambda r: r.status is SequenceStatus.DEAD_LETTERED, "all others are done"
        )
        assert (report.frames.published, report.dead_lettered) == (9, (2,))
        assert "vanish" in report.failures[2].message
        farm.finalize = farm.published
        await handle.signal(SequenceWorkflow.retry)
        report = await handle.result()
    assert (report.frames.published, report.dead_lettered, report.failures) == (10, (), {})


async def test_parked_frames_take_no_place_in_the_window(server: Client) -> None:
    farm, many = Farm(tiles=1), policies.SEQUENCE_WINDOW
    poison(farm, *range(1, many + 1))
    async with farm.running(server):
        handle = await farm.start_sequence(server, sequence("narrow", (1, many + 3, 1)))
        report = await wait_for_sequence(
            handle, lambda r: r.status is SequenceStatus.DEAD_LETTERED, "the others are done"
        )
        assert (report.frames.published, report.frames.dead_lettered) == (3, many)
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await handle.result()
        report = await handle.query(SequenceWorkflow.status)
    assert (report.frames.published, report.frames.cancelled) == (3, many)
    assert farm.letters == []  # the frames themselves were cancelled


async def test_a_frame_that_runs_already_is_awaited(server: Client) -> None:
    farm = Farm(tiles=1)
    seen, asked = Rendered(farm), sequence("attach", (1, 3, 1))
    seen.hold(2)
    async with farm.running(server):
        alone = await farm.start_alone(server, asked.frame(2))
        await wait_for(alone, lambda status: 2 in seen.numbers, "it runs")
        handle = await farm.start_sequence(server, asked)
        await wait_for_sequence(handle, lambda r: r.frames.published == 2, "the others are done")
        seen.let_go()
        report = await handle.result()
        assert await alone.result() == RESULT
    assert report.frames.published == 3
    assert sorted(seen.numbers) == [1, 2, 3]  # once each


async def test_the_end_of_somebody_elses_frame_is_told_apart(server: Client) -> None:
    """Cancelled by whoever started it: it becomes the sequence's own. Failed: it has failed."""
    farm = Farm(tiles=1)
    seen, asked = Rendered(farm), sequence("others", (1, 2, 1))
    seen.hold(1, 2)
    seen.bad = {2: ErrorCode.ASSET_MISSING}
    async with farm.running(server):
        first = await farm.start_alone(server, asked.frame(1))
        second = await farm.start_alone(server, asked.frame(2))
        await wait_for(second, lambda status: len(seen.numbers) == 2, "both run")
        handle = await farm.start_sequence(server, asked)
        await wait_for_sequence(handle, lambda r: r.frames.running == 2, "both are awaited")
        await first.terminate()
        await wait_for_sequence(handle, lambda r: seen.numbers.count(1) == 2, "it is started again")
        seen.let_go()
        with pytest.raises(WorkflowFailureError):
            await handle.result()
        report = await handle.query(SequenceWorkflow.status)
    assert (report.frames.published, report.frames.failed) == (1, 1)
    assert "frame 2 is bad" in report.failures[2].message


async def test_another_frame_of_the_same_name_is_not_taken_for_ours(server: Client) -> None:
    farm = Farm(tiles=1)
    asked = sequence("conflict", (1, 2, 1))
    impostor = await server.start_workflow(
        "FrameWorkflow", {}, id=asked.frame(1).job_id, task_queue="nobody", memo={"idempotency_key": "f" * 64}
    )
    async with farm.running(server):
        handle = await farm.start_sequence(server, asked)
        with pytest.raises(WorkflowFailureError):
            await handle.result()
        report = await handle.query(SequenceWorkflow.status)
    await impostor.terminate()
    assert report.failures[1].code is ErrorCode.IDEMPOTENCY_CONFLICT
    assert report.frames.published == 1


async def test_the_history_of_a_sequence_stays_short(server: Client) -> None:
    """200 frames are to take less than 4,000 events: 20 a frame."""
    farm, frames = Farm(tiles=1), 20
    async with farm.running(server):
        handle = await farm.start_sequence(server, sequence("short", (1, frames, 1)))
        await handle.result()
        history = await handle.fetch_history()
    assert len(history.events) < 20 * frames
    print(len(history.events), "events for", frames, "frames")
