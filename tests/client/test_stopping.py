"""Pausing, cancelling and submitting again, against a real Temporal server with scripted activities."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from temporalio import activity

from contracts import FramePlan, FrameRequest, TileOutcome, TileResult, TileTask
from store import layout
from tests.client.desk import PATIENCE, Desk
from tracer.engine import fingerprint
from workflows import queues

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_pause_resume_and_cancel(desk: Desk) -> None:
    desk.farm.render = desk.farm.until_stopped
    async with desk.farm.running(desk.client):
        job = await desk.submit()
        status = await desk.until(job, lambda s: s["tiles"]["running"] == 3)
        assert (status["status"], status["attempts"]["total"]) == ("running", 3)
        assert (await desk.run("pause", job)).content["status"] == "paused"
        assert (await desk.until(job, lambda s: s["tiles"]["running"] == 0))["status"] == "paused"
        assert (await desk.run("resume", job)).content["status"] == "running"
        assert (await desk.run("retry", job)).code == 2
        cancelled = await desk.run("cancel", job)
        assert (cancelled.code, cancelled.content["status"]) == (0, "cancelled")
        watched = await desk.run("watch", job)
        assert (watched.code, watched.content["status"]) == (4, "cancelled")
        assert not desk.farm.discarded
        refused = await desk.run("pause", job)
        assert refused.code == 2 and "cancelled already" in refused.errors

        desk.farm.render = desk.farm.rendered
        assert (await desk.run("render", str(desk.scene), "-o", "a.exr")).code == 0


async def test_cancel_discard_removes_what_was_made(desk: Desk) -> None:
    desk.farm.render = desk.farm.until_stopped
    async with desk.farm.running(desk.client):
        job = await desk.submit()
        await desk.until_status(job, "running")
        code, out, _ = await desk.say("cancel", job, "--discard")
        assert (code, out) == (0, f"{job}\ncancelled; its films are removed\n")
        assert desk.farm.discarded
        again = await desk.run("cancel", job)
        assert again.code == 2 and "cancelled already" in again.errors


async def test_what_is_published_cannot_be_cancelled(desk: Desk) -> None:
    async with desk.farm.running(desk.client):
        job = (await desk.run("render", str(desk.scene), "-o", "a.exr")).content["job_id"]
        refused = await desk.run("cancel", job, "--discard")
        assert refused.code == 2
        assert "published: there is nothing to cancel, and --discard does not apply" in refused.errors


async def test_a_submit_while_the_frame_is_being_cancelled_starts_it_again(desk: Desk) -> None:
    """The cancelled run must not answer for the new one, however long its tiles take to stop."""
    stopping, may_end = asyncio.Event(), asyncio.Event()

    async def slow_to_stop(task: TileTask, kind: str) -> TileResult:
        await desk.farm.until_stopped(task, kind)
        stopping.set()
        while not may_end.is_set():
            activity.heartbeat()
            await asyncio.sleep(0.05)
        return TileResult(outcome=TileOutcome.STOPPED, finished=0)

    desk.farm.render = slow_to_stop
    async with desk.farm.running(desk.client):
        job = await desk.submit()
        await desk.until(job, lambda s: s["tiles"]["running"] == 3)
        first = await desk.client.get_workflow_handle(job).describe()
        await desk.client.get_workflow_handle(job).cancel()
        await asyncio.wait_for(stopping.wait(), 30)
        status = (await desk.run("status", job)).content
        desk.farm.render = desk.farm.rendered
        rendering = asyncio.create_task(desk.run("render", str(desk.scene), "-o", "a.exr"))
        seen = ""
        for _ in range(PATIENCE):
            seen += desk.errors()
            if "just being cancelled: waiting" in seen or rendering.done():
                break
            await asyncio.sleep(0.05)
        may_end.set()
        done = await rendering
    assert "being cancelled" in status["note"]
    assert "just being cancelled: waiting" in seen
    assert (done.code, done.content["status"]) == (0, "completed")
    assert (await desk.client.get_workflow_handle(job).describe()).run_id != first.run_id


async def test_a_cancelled_run_that_does_not_end_is_not_waited_for_without_limit(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("client.submit.END_SECONDS", 0.3)
    monkeypatch.setattr("client.cancel.END_SECONDS", 0.3)
    monkeypatch.setattr("client.session.QUERY_TIMEOUT", timedelta(seconds=0.2))
    monkeypatch.setattr(queues, "CONTROL", "tessera-control-of-nobody")
    job = await desk.submit()
    code, out, _ = await desk.say("cancel", job)
    assert code == 0 and "cancel is requested, but the run has not ended within 0 s" in out
    refused = await desk.run("submit", str(desk.scene))
    assert refused.code == 69 and "being cancelled and has not ended" in refused.errors
    await desk.client.get_workflow_handle(job).terminate()


async def test_progress_does_not_go_back_over_a_pause_and_a_cancel(desk: Desk) -> None:
    """What the tiles had when they were stopped is in the store, and counts while they wait again."""

    async def half(task: TileTask, kind: str) -> TileResult:
        tile = task.tiles[0]
        try:
            while True:
                activity.heartbeat({"tile": tile.tile_id, "samples": 4, "stored": 0, "done": 4 * tile.area})
                await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            key = layout.film(task.sample_key, tile.tile_id, 5)
            if desk.store.stat(key) is None:
                desk.store.put_new(key, b"film")
            return TileResult(outcome=TileOutcome.STOPPED, finished=0)

    async def planned(request: FrameRequest) -> FramePlan:
        plan = await desk.farm.planned(request)
        plan = plan.model_copy(update={"sample_key": request.sample_key(fingerprint())})
        if desk.store.stat(layout.plan(plan.sample_key)) is None:
            desk.store.put_new(layout.plan(plan.sample_key), plan.model_dump_json().encode())
        return plan

    async def never(request: FrameRequest) -> FramePlan:
        await asyncio.Event().wait()
        raise AssertionError

    desk.farm.prepare, desk.farm.render = planned, half
    async with desk.farm.running(desk.client):
        job = await desk.submit("--spp", "8")
        await desk.until(job, lambda s: s["progress"] == pytest.approx(4 / 8))
        await desk.run("pause", job)
        await desk.until(job, lambda s: s["tiles"]["running"] == 0 and s["progress"] == pytest.approx(5 / 8))
        await desk.run("resume", job)
        for _ in range(20):
            assert (await desk.run("status", job)).content["progress"] == pytest.approx(5 / 8)
        cancelled = (await desk.run("cancel", job)).content
        assert (cancelled["status"], cancelled["progress"]) == ("cancelled", pytest.approx(5 / 8))

        desk.farm.prepare = never
        again = await desk.run("submit", str(desk.scene), "--spp", "8")
        assert (again.content["status"], again.content["progress"]) == ("queued", pytest.approx(5 / 8))
        await desk.client.get_workflow_handle(job).terminate()
