"""A whole small frame without Temporal: the real activities, one after the other, in this process."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from temporalio.testing import ActivityEnvironment

from activities.finalize import FinalizeActivities
from activities.prepare import LIMITS, PrepareActivities
from activities.scenes import SceneCache
from activities.tiles import TileActivities
from client.request import Options, make_requests
from client.upload import upload
from contracts import FinalizeTask, FramePlan, FrameRequest, RunCounts, TileTask
from store import Store
from tracer import engine
from tracer.limits import Limits
from workflows.tiling import tile_at, tile_count

SCENE = Path(__file__).resolve().parents[1] / "scenes" / "cornell.gltf"
SIZE = {"width": 40, "height": 24}
WORKER = "tiles@desk"


def submit(store: Store, samples: int = 4, scene: Path = SCENE, **settings: Any) -> FrameRequest:
    """A small frame's request, its scene and its record in the store."""
    options = Options(samples_per_pixel=samples, tile_size=16, settings=SIZE | settings)
    requests, local = make_requests(scene, [1], options)
    upload(store, local, requests)
    return requests[0]


def prepare(store: Store, request: FrameRequest, limits: Limits = LIMITS) -> FramePlan:
    activities = PrepareActivities(store, SceneCache(store, 2), engine.fingerprint(), WORKER, limits=limits)
    plan: FramePlan = ActivityEnvironment().run(activities.prepare_frame, request)
    return plan


def render(store: Store, request: FrameRequest) -> FramePlan:
    """Every tile of the frame, one after the other."""
    scenes, plan = SceneCache(store, 2), prepare(store, request)
    tiles = TileActivities(store, scenes, 0.01, WORKER)
    for number in range(tile_count(plan)):
        task = TileTask(
            job_id=request.job_id,
            sample_key=plan.sample_key,
            tiles=(tile_at(plan, number),),
            samples=request.samples_per_pixel,
        )
        ActivityEnvironment().run(tiles.render_tile, task)
    return plan


def finalize_task(request: FrameRequest, plan: FramePlan) -> FinalizeTask:
    return FinalizeTask(
        job_id=request.job_id,
        plan=plan,
        request=request,
        counts=RunCounts(tiles=tile_count(plan)),
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        workers={WORKER: ((0, tile_count(plan)),)},
        attempts={0: 3},
    )


def finalize(store: Store, request: FrameRequest, plan: FramePlan, run_id: str = "run") -> Any:
    """The outcome of one attempt to publish the frame."""
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, workflow_run_id=run_id)
    activity = FinalizeActivities(store, WORKER).finalize_frame
    return environment.run(activity, finalize_task(request, plan))


def publish(store: Store, samples: int = 4, **settings: Any) -> FrameRequest:
    request = submit(store, samples, **settings)
    outcome = finalize(store, request, render(store, request))
    assert outcome.result is not None
    return request
