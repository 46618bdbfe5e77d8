"""Many frames on a real farm that is disturbed: each is published once, and what has no picture is named."""

from __future__ import annotations

import asyncio

import pytest

from settings import connect
from store import layout
from tests.system.farm import Farm, kill, poll
from tests.system.moving_scene import FPS, with_a_bad_frame

pytestmark = pytest.mark.system

OPTIONS = ("--size", "16x9", "--spp", "2", "--max-depth", "2", "--fps", str(FPS))
"""As small as frames get: here the frames count, not their samples."""
FRAMES, BAD = 200, 117
LONG = 600.0
"""Seconds for many frames, on a machine that has other work."""
EVENTS = 4_000
"""Of history that a run may have: Temporal's own advice is to continue as new a little above."""


@pytest.mark.timeout(2 * LONG)
def test_two_hundred_frames_under_kills_and_restarts(farm: Farm) -> None:
    """The client is killed while it submits; tile and control workers are killed, and the server is started
    again from its database. All frames are published but the one that cannot be, and that one is named."""
    scene = str(with_a_bad_frame(farm.folder / "turning.glb", BAD))
    words = ("submit", scene, "--frames", f"1-{FRAMES}", *OPTIONS)
    control, tiles = farm.start_worker("control"), farm.start_worker("tiles")
    client = farm.start_tessera(*words)
    poll(lambda: list(farm.store.list("sequences/")), "the submit has begun")
    kill(client)
    job = farm.tessera(*words)["job_id"]
    assert farm.tessera(*words)["job_id"] == job  # attaches

    published(farm, FRAMES // 10)
    kill(tiles)
    farm.start_worker("tiles")
    published(farm, FRAMES // 4)
    kill(farm.processes[0])  # the server
    farm.start_server()
    published(farm, FRAMES // 2)
    kill(control)
    farm.start_worker("control")

    assert farm.tessera("watch", job, code=1, timeout=LONG)["status"] == "failed_terminal"
    report = farm.tessera("status", job)
    assert (report["frames"]["published"], report["frames"]["failed"]) == (FRAMES - 1, 1)
    (number, failure), *others = report["failures"].items()
    assert (number, failure["code"], failure["attempt"], others) == (str(BAD), "scene_invalid", 1, [])
    assert "looks nowhere" in failure["message"]
    states = {frame["frame"]: frame["status"] for frame in report["jobs"]}
    assert states == dict.fromkeys(range(1, FRAMES + 1), "completed") | {BAD: "failed_terminal"}
    assert len(list(farm.store.list(layout.manifests()))) == FRAMES - 1

    lengths = asyncio.run(events(farm, job))
    print(f"{FRAMES} frames: {lengths} events")
    assert len(lengths) == 1 and max(lengths) < EVENTS


def published(farm: Farm, count: int) -> None:
    poll(lambda: len(list(farm.store.list(layout.manifests()))) >= count, f"{count} are published", LONG)


async def events(farm: Farm, job: str) -> list[int]:
    """The length of the history of every run of the job."""
    client = await connect(farm.env["TEMPORAL_ADDRESS"])
    runs = [run async for run in client.list_workflows(f"WorkflowId = '{job}'")]
    handles = [client.get_workflow_handle(job, run_id=run.run_id) for run in runs]
    return [len((await handle.fetch_history()).events) for handle in handles]
