"""Priority and more samples from the command line."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from temporalio import activity
from temporalio.exceptions import ApplicationError

from contracts import FinalizeOutcome, FinalizeTask, TileOutcome, TileResult, TileTask
from tests.client.desk import Desk
from workflows import policies

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_priority_is_checked_and_reaches_the_next_tiles(desk: Desk) -> None:
    desk.farm.tiles, go_on = policies.WINDOW + 4, asyncio.Event()
    keys: list[int | None] = []

    async def render(task: TileTask, kind: str) -> TileResult:
        keys.append(activity.info().priority.priority_key)
        while not go_on.is_set():
            activity.heartbeat()
            await asyncio.sleep(0.05)
        return TileResult(outcome=TileOutcome.RENDERED, finished=1)

    desk.farm.render = render
    async with desk.farm.running(desk.client):
        job = await desk.submit("--priority", "10")
        await desk.until(job, lambda s: s["tiles"]["running"] == policies.WINDOW)
        refused = await desk.run("priority", job, "101")
        assert refused.code == 2 and "--priority: 101" in refused.errors
        assert (await desk.run("priority", job, "100")).code == 0
        go_on.set()
        await desk.until_status(job, "completed")
        assert keys == [5] * policies.WINDOW + [1] * 4
        late = await desk.run("priority", job, "50")
        assert late.code == 2 and "is completed already" in late.errors


async def test_more_samples_of_a_running_frame_and_of_a_published_one(desk: Desk) -> None:
    desk.farm.render = desk.farm.until_stopped
    async with desk.farm.running(desk.client):
        job = await desk.submit("--spp", "8")
        await desk.until_status(job, "running")
        fewer = await desk.run("more", job, "--spp", "8")
        assert fewer.code == 2 and "has 8 samples a pixel" in fewer.errors
        more = await desk.run("more", job, "--spp", "16")
        assert more.code == 0 and more.content["job_id"] != job
        again = await desk.run("more", job, "--spp", "16")
        assert again.content["job_id"] == more.content["job_id"]
        for number in (job, more.content["job_id"]):
            await desk.run("cancel", number)
        desk.farm.render = desk.farm.rendered
        assert (await desk.run("render", str(desk.scene), "-o", "a.exr", "--spp", "8")).code == 0
        last = (await desk.run("more", job, "--spp", "32")).content["job_id"]
        assert (await desk.until_status(last, "completed"))["samples"]["target"] == 3 * 256 * 32
        assert (await desk.run("more", job, "--spp", "32")).content["status"] == "completed"


async def test_what_makes_no_sense_is_refused_with_the_reason(desk: Desk) -> None:
    go_on = asyncio.Event()

    async def finalize(task: FinalizeTask) -> FinalizeOutcome:
        while not go_on.is_set():
            activity.heartbeat()
            await asyncio.sleep(0.05)
        return await desk.publish(task)

    desk.farm.finalize = finalize
    async with desk.farm.running(desk.client):
        job = await desk.submit()
        await desk.until_status(job, "finalizing")
        for words in (("pause", job), ("priority", job, "9"), ("retry", job)):
            refused = await desk.run(*words)
            assert refused.code == 2 and "is finalizing: " in refused.errors, words
        go_on.set()
        await desk.until_status(job, "completed")

    async def poison(task: TileTask, kind: str) -> TileResult:
        raise ApplicationError("bang", type="bang", next_retry_delay=timedelta(milliseconds=20))

    desk.farm.render = poison
    async with desk.farm.running(desk.client):
        job = await desk.submit("--spp", "2")
        await desk.until_status(job, "dead_lettered")
        for command in ("pause", "resume"):
            refused = await desk.run(command, job)
            assert refused.code == 2 and "retry or cancel it" in refused.errors
        assert (await desk.run("cancel", job)).code == 0
