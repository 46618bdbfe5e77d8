"""prepare_frame: proves that the scene loads, measures what it costs, and stores the plan."""

from __future__ import annotations

import time

from temporalio import activity

from activities.attempt import beat_step
from activities.errors import Refused, coded_errors
from activities.scenes import SceneCache
from contracts import ErrorCode, FramePlan, FrameRequest
from store import NotFound, Store, layout
from store.blobs import keep_young, put_record
from telemetry.metrics import UNMEASURED, Metrics
from tracer.build import PreparedScene
from tracer.film import new_film
from tracer.limits import Limits
from tracer.render import render_samples
from tracer.scene import PixelRect
from workflows.tiling import choose_tile_size, smallest_tile_size

PROBES = 4
"""The frame's cost is measured on PROBES x PROBES small squares spread evenly over the picture."""
PROBE_EDGE = 16
LIMITS = Limits()


class PrepareActivities:
    def __init__(
        self,
        store: Store,
        scenes: SceneCache,
        engine: str,
        worker: str,
        *,
        limits: Limits = LIMITS,
        metrics: Metrics = UNMEASURED,
    ) -> None:
        self._limits = limits
        self._metrics = metrics
        self._store = store
        self._scenes = scenes
        self._engine = engine
        self._worker = worker

    @activity.defn(no_thread_cancel_exception=True)
    def prepare_frame(self, request: FrameRequest) -> FramePlan:
        """The stored plan of this sample_key, or a new one. A stored plan wins over tile_size."""
        with coded_errors(self._worker):
            beat_step("starting")
            sample_key = request.sample_key(self._engine)
            return self._stored(sample_key) or self._make(sample_key, request)

    def _stored(self, sample_key: str) -> FramePlan | None:
        key = layout.plan(sample_key)
        try:
            data, stat = self._store.get(key)
        except NotFound:
            return None
        if not keep_young(self._store, key, stat, data):
            return None
        self._metrics.duplicates.add(1, {"kind": "plan"})
        return FramePlan.model_validate_json(data)

    def _make(self, sample_key: str, request: FrameRequest) -> FramePlan:
        scene = self._scenes.get(sample_key, request, beat_step, self._limits)
        if request.tile_size is not None:
            check_tile_size(scene.width, scene.height, request.tile_size)
        seconds = seconds_per_sample(scene)
        frame_seconds = seconds * request.samples_per_pixel
        plan = FramePlan(
            sample_key=sample_key,
            engine=self._engine,
            request=request,
            scene_hash=scene.hash,
            width=scene.width,
            height=scene.height,
            tile_size=request.tile_size or choose_tile_size(scene.width, scene.height, frame_seconds),
            warnings=scene.warnings,
            seconds_per_sample=seconds,
        )
        data = put_record(self._store, layout.plan(sample_key), plan.model_dump_json().encode())
        stored = FramePlan.model_validate_json(data)
        if stored.scene_hash != plan.scene_hash:
            raise Refused(
                ErrorCode.NONDETERMINISTIC,
                "two workers prepared different scenes from the same bundle: their libraries or "
                "processors differ",
            )
        return stored


def check_tile_size(width: int, height: int, edge: int) -> None:
    smallest = smallest_tile_size(width, height)
    if edge < smallest:
        raise Refused(
            ErrorCode.SETTINGS_INVALID,
            f"--tile {edge} cuts {width}x{height} pixels into too many tiles; use {smallest} or more",
        )


def seconds_per_sample(scene: PreparedScene) -> float:
    """Estimated seconds on one thread for one sample of each pixel of the frame."""
    spent, pixels = 0.0, 0
    for row in range(PROBES):
        for column in range(PROBES):
            width, height = min(PROBE_EDGE, scene.width), min(PROBE_EDGE, scene.height)
            x = (scene.width - width) * column // max(PROBES - 1, 1)
            y = (scene.height - height) * row // max(PROBES - 1, 1)
            film = new_film(width, height)
            began = time.perf_counter()
            render_samples(scene, film, PixelRect(x, y, width, height), 0, 1)
            spent += time.perf_counter() - began
            pixels += width * height
            beat_step("measuring")
    return spent / pixels * scene.width * scene.height
