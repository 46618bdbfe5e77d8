"""The command line against a real Temporal server, with scripted activities in place of the renderer."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from temporalio import activity
from temporalio.exceptions import ApplicationError

from client.presence import NOBODY
from client.upload import upload
from contracts import (
    FinalizeOutcome,
    FinalizeTask,
    FramePlan,
    FrameRequest,
    JobStatus,
    TileOutcome,
    TileResult,
    TileTask,
)
from starter import render_frame, submit_frame
from store import layout
from store.lease import acquire
from tests.client.desk import PATIENCE, Desk
from tests.client.published_frame import publish_frame
from tracer.engine import fingerprint
from workflows import queues
from workflows.launch import KEY_MEMO

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_render_ends_with_a_picture_and_every_field_of_the_contract(desk: Desk) -> None:
    async with desk.farm.running(desk.client):
        done = await desk.run("render", str(desk.scene), "-o", "ö.exr", "-o", "a.png", "--spp", "8")
    assert done.code == 0
    status = done.content
    assert (status["status"], status["progress"], status["error"]) == ("completed", 1.0, None)
    assert status["samples"] == {"target": 6144, "rendered": 6144, "resumed": 0}
    assert status["tiles"] == {"total": 3, "rendered": 3, "running": 0, "dead": 0}
    assert status["max_retries"] == 3 and status["lease"] is None
    assert status["input_hash"] in status["progress_pointer"]
    assert (desk.folder / "ö.exr").read_bytes() == desk.store.get(status["result"]["image"])[0]
    assert (desk.folder / "a.png").exists()
    assert "wrote ö.exr" in done.errors


async def test_the_second_time_nothing_is_asked_of_temporal(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk.farm.running(desk.client):
        first = await desk.run("render", str(desk.scene), "-o", "a.exr")
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    again = await desk.run("render", str(desk.scene), "-o", "b.exr")
    assert again.code == 0 and again.content["result"] == first.content["result"]
    assert again.content["samples"]["rendered"] == 0
    assert again.content["samples"]["resumed"] == again.content["samples"]["target"]
    assert (desk.folder / "a.exr").read_bytes() == (desk.folder / "b.exr").read_bytes()
    fetched = await desk.run("fetch", first.content["job_id"], "-o", "c.####.npy")
    assert fetched.content["outputs"] == ["c.0001.npy"] and (desk.folder / "c.0001.npy").exists()
    assert "wrote c.0001.npy" in fetched.errors


async def test_two_submits_are_one_run(desk: Desk) -> None:
    jobs = [await desk.submit(), await desk.submit("--priority", "90", "--tile", "16")]
    assert len(set(jobs)) == 1
    runs = [run async for run in desk.client.list_workflows(f"WorkflowId = '{jobs[0]}'")]
    assert len({run.run_id for run in runs}) <= 1
    async with desk.farm.running(desk.client):
        assert (await desk.run("watch", jobs[0])).code == 0
    assert desk.farm.attempts["prepare"] == 1


async def test_completed_without_a_manifest_is_said_and_rendered_again(desk: Desk) -> None:
    async with desk.farm.running(desk.client):
        job = (await desk.run("render", str(desk.scene), "-o", "a.exr")).content["job_id"]
        desk.store.delete(layout.manifest(job))
        status = (await desk.run("status", job)).content
        assert status["result"] is None and "manifest is gone" in status["note"]
        again = await desk.run("render", str(desk.scene), "-o", "a.exr")
    assert again.code == 0 and again.content["status"] == "completed"
    assert "manifest is gone" in again.errors
    assert desk.farm.attempts["finalize"] == 2


async def test_a_running_frame_of_another_key_is_a_conflict(desk: Desk) -> None:
    job = await desk.submit()
    await desk.client.get_workflow_handle(job).terminate()
    await desk.client.start_workflow(
        "FrameWorkflow", {}, id=job, task_queue="nobody", memo={KEY_MEMO: "f" * 64}
    )
    refused = await desk.run("submit", str(desk.scene))
    assert refused.code == 2
    assert refused.content["error"]["code"] == "idempotency_conflict"
    await desk.client.get_workflow_handle(job).terminate()


async def test_progress_moves_by_the_samples_of_running_tiles(desk: Desk) -> None:
    async def half(task: TileTask, kind: str) -> TileResult:
        tile = task.tiles[0]
        try:
            while True:
                activity.heartbeat(
                    {"tile": tile.tile_id, "samples": 4, "stored": 2, "done": 4 * tile.area, "target": 2048}
                )
                await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            return TileResult(outcome=TileOutcome.STOPPED, finished=0)

    desk.farm.render = half
    async with desk.farm.running(desk.client):
        job = await desk.submit("--spp", "8")
        status = await desk.until(job, lambda s: s["progress"] > 0.49)
        assert status["progress"] == pytest.approx(0.5)
        shown = (await desk.run("status", job, "--tiles")).content["in_flight"]
        assert {tile["status"] for tile in shown} == {"progressing"}
        assert {(tile["samples"], tile["done"]) for tile in shown} == {(4, 4 * 256)}
        await desk.run("cancel", job)


async def test_the_lease_is_told_while_a_frame_is_finalized(desk: Desk) -> None:
    finalizing, seen = asyncio.Event(), asyncio.Event()

    async def finalize(task: FinalizeTask) -> FinalizeOutcome:
        with acquire(desk.store, layout.lease(task.job_id), "run/finalize/1", 30.0):
            finalizing.set()
            while not seen.is_set():
                activity.heartbeat()
                await asyncio.sleep(0.05)
            return await desk.publish(task)

    desk.farm.finalize = finalize
    async with desk.farm.running(desk.client):
        job = await desk.submit("--spp", "8")
        await asyncio.wait_for(finalizing.wait(), 30)
        status = (await desk.run("status", job)).content
        assert (status["status"], status["progress"]) == ("finalizing", 1.0)
        assert (status["lease"]["owner"], status["lease"]["fence"]) == ("run/finalize/1", 1)
        seen.set()
        done = (await desk.run("watch", job)).content
    assert (done["status"], done["lease"]) == ("completed", None)


async def test_a_worker_of_the_present_engine_has_only_to_be_started(desk: Desk) -> None:
    async def planned(request: FrameRequest) -> FramePlan:
        return (await desk.farm.planned(request)).model_copy(update={"engine": fingerprint()})

    desk.farm.prepare = planned
    async with desk.farm.running(desk.client):
        job = await desk.submit()
        status = await desk.until(job, lambda s: s["status"] == "running")
        assert status["note"] == NOBODY
        await desk.run("cancel", job)


async def test_a_terminal_failure_is_told_with_and_without_a_worker(desk: Desk) -> None:
    async def refuse(request: FrameRequest) -> FramePlan:
        raise ApplicationError(
            "tri angle.obj: line 3: no number", {"attempt": 1, "worker": "w"}, type="scene_invalid"
        )

    desk.farm.prepare = refuse
    async with desk.farm.running(desk.client):
        failed = await desk.run("render", str(desk.scene), "-o", "a.exr")
    assert (failed.code, failed.content["status"]) == (1, "failed_terminal")
    told = (await desk.run("status", failed.content["job_id"])).content  # nobody answers a query now
    for status in (failed.content, told):
        error = status["error"]
        assert (error["code"], error["worker"], error["attempt"]) == ("scene_invalid", "w", 1)
        assert error["message"] == "tri angle.obj: line 3: no number"
    assert not (desk.folder / "a.exr").exists()


async def test_a_dead_lettered_frame_waits_for_a_retry(desk: Desk) -> None:
    broken = True

    async def prepare(request: FrameRequest) -> FramePlan:
        if broken:  # ends its retries at once, as an error that nobody foresaw and that may pass would later
            raise ApplicationError("the store is away", type="storage_unavailable", non_retryable=True)
        return await desk.farm.planned(request)

    desk.farm.prepare = prepare
    async with desk.farm.running(desk.client):
        parked = await desk.run("render", str(desk.scene), "-o", "a.exr")
        assert (parked.code, parked.content["status"]) == (3, "dead_lettered")
        assert parked.content["error"]["code"] == "storage_unavailable"
        broken = False
        assert (await desk.run("retry", parked.content["job_id"])).code == 0
        assert (await desk.run("watch", parked.content["job_id"])).code == 0


async def test_a_failure_that_is_being_retried_is_shown(desk: Desk) -> None:
    async def fail(task: TileTask, kind: str) -> TileResult:
        raise ApplicationError(
            "no room", {"attempt": 1, "worker": "w"}, type="storage_full", next_retry_delay=None
        )

    desk.farm.render = fail
    async with desk.farm.running(desk.client):
        job = await desk.submit()
        status = await desk.until(job, lambda s: s["error"] is not None)
        assert (status["error"]["code"], status["error"]["message"]) == ("storage_full", "no room")
        assert status["attempts"]["lost"] > 0
        await desk.run("cancel", job)


async def test_nobody_there_is_said(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "CONTROL", "tessera-control-of-nobody")
    monkeypatch.setattr("client.session.QUERY_TIMEOUT", timedelta(seconds=0.2))
    job = await desk.submit()
    status = (await desk.run("status", job)).content
    assert (status["status"], status["samples"]["target"]) == ("queued", 0)
    assert status["note"] == "no control worker answers yet"
    await desk.client.get_workflow_handle(job).terminate()
    assert (await desk.run("status", job)).content["status"] == "cancelled"


async def test_a_workflow_that_fails_is_told_from_one_that_nobody_runs(desk: Desk) -> None:
    async with desk.farm.running(desk.client):
        handle = await desk.client.start_workflow(
            "FrameWorkflow", {"no": "input"}, id=f"frame-{desk.folder.name}", task_queue=queues.CONTROL
        )
        status = await desk.until(handle.id, lambda s: "no control worker" not in s["note"])
        assert "the workflow itself fails" in status["note"]
        await handle.terminate()


async def test_a_frame_of_an_engine_that_nobody_has_says_so(desk: Desk) -> None:
    async def planned(request: FrameRequest) -> FramePlan:
        plan = await desk.farm.planned(request)
        return plan.model_copy(update={"engine": "oldengine"})

    desk.farm.prepare = planned
    async with desk.farm.running(desk.client):
        job = await desk.submit()
        status = await desk.until(job, lambda s: s["note"] is not None and "oldengine" in s["note"])
        assert "no worker of engine oldengine" in status["note"]
        await desk.run("cancel", job)
        await desk.until_status(job, "cancelled")


async def test_several_frames_are_a_sequence_of_jobs_and_a_list(desk: Desk) -> None:
    async with desk.farm.running(desk.client):
        done = await desk.run("render", str(desk.scene), "-o", "{frame:03d}.npy", "--frames", "1-3x2,7")
        assert done.code == 0
        assert done.content["frames"]["published"] == 3
        assert sorted(p.name for p in desk.folder.glob("*.npy")) == ["001.npy", "003.npy", "007.npy"]
        # The list is of Temporal's visibility store, which follows with a delay.
        for _ in range(PATIENCE):
            words = ("--project", desk.folder.name, "--status", "completed")
            rows = (await desk.run("list", *words)).content["frames"]
            if len(rows) == 3:
                break
            await asyncio.sleep(0.05)
        assert "completed, frames 3/3" in done.errors
        out = (await desk.say("list", *words))[1].splitlines()
    assert out[0].split() == ["STATUS", "PROGRESS", "FRAME", "SIZE", "SPP", "AGE", "SCENE", "JOB"]
    jobs = {row["job_id"] for row in rows} | {done.content["job_id"]}
    assert jobs == {line.split()[-1] for line in out[1:]}
    assert {(row["size"], row["samples_per_pixel"], row["scene"]) for row in rows} == {
        (None, 64, "tri angle.obj")
    }
    assert {row["frame"] for row in rows} == {1, 3, 7}
    assert len((await desk.run("list", "--limit", "1")).content["frames"]) == 1


async def test_unknown_jobs_and_bad_filters_are_exit_code_2(desk: Desk) -> None:
    told = (await desk.run("status", "frame-none")).errors
    address = desk.client.service_client.config.target_host
    assert f"no such job in Temporal at {address} and the store {desk.folder / 'store'};" in told
    nothing = await desk.say("list", "--project", desk.folder.name)
    assert nothing[:2] == (0, "") and f"no such frames in Temporal at {address}" in nothing[2]
    for words in (
        ("status", "frame-none"),
        ("watch", "../etc"),
        ("cancel", "frame-none"),
        ("fetch", "frame-none", "-o", "a.exr"),
        ("list", "--status", "happy"),
        ("list", "--project", "x' OR 1=1"),
        ("list", "--scene", "a'.glb"),
        ("list", "--since", "yesterday"),
        ("list", "--limit", "0"),
    ):
        refused = await desk.run(*words)
        assert refused.code == 2, words
        assert refused.content["error"]["exit_code"] == 2


async def test_what_temporal_forgot_is_answered_by_the_store(desk: Desk) -> None:
    from client.request import Options, make_requests

    requests, local = make_requests(desk.scene, [1], Options(project=desk.folder.name))
    upload(desk.store, local, requests)
    status = (await desk.run("status", requests[0].job_id)).content
    assert "submit it again" in status["note"]
    publish_frame(desk.store, requests[0], desk.folder)
    status = (await desk.run("status", requests[0].job_id)).content
    assert (status["status"], status["progress"]) == ("completed", 1.0)


async def test_the_python_functions(desk: Desk) -> None:
    watched = asyncio.Event()
    seen: list[float] = []

    async def planned_when_watched(request: FrameRequest) -> FramePlan:
        await watched.wait()
        return await desk.farm.planned(request)

    def on_status(status: JobStatus) -> None:
        watched.set()
        seen.append(status.progress)

    desk.farm.prepare = planned_when_watched
    async with desk.farm.running(desk.client):
        submitted = await submit_frame(desk.scene, samples_per_pixel=8, seed=3)
        status = await render_frame(
            desk.scene, output="a.exr", on_status=on_status, samples_per_pixel=8, seed=3
        )
    assert submitted.job_id == status.job_id and status.result is not None
    assert seen[-1] == 1.0 and (desk.folder / "a.exr").exists()
    assert status.job_id.startswith("frame-test-the-python-")
