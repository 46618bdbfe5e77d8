"""Prepared scenes of one worker process: built once, shared by its threads, from the store alone."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, TimeoutError
from dataclasses import replace
from math import radians

import numpy as np

from contracts import FrameRequest, SceneBundle
from store import NotFound, Store, layout
from store.blobs import get_blob
from telemetry.metrics import UNMEASURED, Metrics, timed
from telemetry.traces import span
from tracer.build import PreparedScene, prepare
from tracer.errors import AssetMissing, FileAbsent, SceneInvalid
from tracer.limits import ADMITTED, Limits
from tracer.loaders import load_environment, load_scene
from tracer.scene import Environment, Progress, SceneFiles, View

WAIT_SECONDS = 0.5
"""How often a thread that waits for another one's build looks whether that one still moves."""


class BundleFiles:
    """The files of one bundle, read from the store. Nothing outside the bundle can be named."""

    def __init__(self, store: Store, bundle: SceneBundle) -> None:
        self._store = store
        self._files = {file.path: file for file in bundle.files}

    def read(self, path: str) -> bytes:
        file = self._files.get(path)
        if file is None:
            raise FileAbsent(f"{path}: not in the scene's bundle")
        try:
            return get_blob(self._store, file.sha256)
        except NotFound as error:
            raise AssetMissing(
                f"{path}: its content {file.sha256} is not in the store; submit again"
            ) from error


def prepare_scene(
    store: Store, request: FrameRequest, progress: Progress, limits: Limits = ADMITTED
) -> PreparedScene:
    """Loads the request's bundle and builds what the kernels read. limits: for a scene that nobody has
    prepared yet; where there is a plan, the scene was admitted.

    Raises the tracer's errors for what is wrong with the scene, and the store's.
    """
    data, _ = store.get(layout.bundle(request.scene.version))
    bundle = SceneBundle.model_validate_json(data)
    if bundle.version != request.scene.version:
        raise SceneInvalid(f"bundle {request.scene.version}: its list of files does not match its name")
    files = BundleFiles(store, bundle)
    scene = load_scene(
        request.scene.entry,
        files,
        time=request.frame_number / request.settings.fps,
        limits=limits,
        progress=progress,
    )
    environment = _environment(request, files, limits)
    if environment is not None:
        scene = replace(scene, environment=environment)
    return prepare(scene, view_of(request), progress, limits)


def _environment(request: FrameRequest, files: SceneFiles, limits: Limits) -> Environment | None:
    settings = request.settings.environment
    if settings is None:
        return None
    if settings.path is not None:
        pixels = load_environment(settings.path, files, limits)
    else:
        pixels = np.array(settings.radiance, dtype=np.float32).reshape(1, 1, 3)
    return Environment(pixels, settings.scale, radians(settings.rotation_degrees))


def view_of(request: FrameRequest) -> View:
    settings, camera = request.settings, request.settings.camera_override
    view = View(
        width=settings.width,
        height=settings.height,
        max_depth=settings.max_depth,
        seed=settings.seed,
        frame=request.frame_number,
        camera=request.camera,
        hide_environment=settings.hide_environment,
        backfaces_black=settings.backfaces == "black",
        aperture_radius=settings.aperture_radius,
        focus_distance=settings.focus_distance,
    )
    if camera is None:
        return view
    return view._replace(
        look_from=camera.look_from,
        look_at=camera.look_at,
        vertical_fov_degrees=camera.vertical_fov_degrees,
        up=camera.up,
    )


class _Build:
    """One build that several threads may wait for. steps counts its progress."""

    def __init__(self) -> None:
        self.future: Future[PreparedScene] = Future()
        self.steps = 0


class SceneCache:
    """The newest prepared scenes by sample_key. One thread builds, others wait for the same build.

    Whoever waits beats only while the build moves: a hung build stops all their heartbeats, and
    Temporal notices.
    """

    def __init__(
        self,
        store: Store,
        capacity: int,
        build: Callable[..., PreparedScene] = prepare_scene,
        metrics: Metrics = UNMEASURED,
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._capacity = capacity
        self._build = build
        self._lock = threading.Lock()
        self._builds: OrderedDict[str, _Build] = OrderedDict()

    def get(
        self, sample_key: str, request: FrameRequest, beat: Progress, limits: Limits = ADMITTED
    ) -> PreparedScene:
        """limits: see prepare_scene."""
        while True:
            with self._lock:
                entry = self._builds.get(sample_key)
                mine = entry is None
                if entry is None:
                    entry = self._builds[sample_key] = _Build()
                self._builds.move_to_end(sample_key)
                while len(self._builds) > self._capacity:
                    self._builds.popitem(last=False)
                self._measure()
            built = "hit" if entry.future.done() else "shared"
            self._metrics.scenes.add(1, {"result": "miss" if mine else built})
            if mine:
                return self._build_now(sample_key, entry, request, beat, limits)
            scene = self._wait(entry, beat)
            if scene is not None:
                return scene

    def _build_now(
        self, sample_key: str, entry: _Build, request: FrameRequest, beat: Progress, limits: Limits
    ) -> PreparedScene:
        def progress(step: str) -> None:
            entry.steps += 1
            beat(step)

        try:
            with span("scene load", scene=request.scene.entry), timed(self._metrics.scene_load_seconds):
                scene = self._build(self._store, request, progress, limits)
        except BaseException as error:
            with self._lock:  # the next one who asks builds again
                if self._builds.get(sample_key) is entry:
                    del self._builds[sample_key]
            entry.future.set_exception(error)
            raise
        entry.future.set_result(scene)
        with self._lock:
            self._measure()
        return scene

    def _measure(self) -> None:
        """Sets the gauge of the cache's memory. The caller holds the lock."""
        futures = [build.future for build in self._builds.values()]
        built = [f.result() for f in futures if f.done() and f.exception() is None]
        self._metrics.scene_memory.set(sum(scene.nbytes for scene in built))

    @staticmethod
    def _wait(entry: _Build, beat: Progress) -> PreparedScene | None:
        """The other thread's scene; None when that build was given up, and it is our turn to try."""
        seen = -1
        while True:
            try:
                return entry.future.result(timeout=WAIT_SECONDS)
            except TimeoutError:
                if entry.steps != seen:
                    seen = entry.steps
                    beat("waiting for the scene")
            except BaseException:  # noqa: BLE001  the thread that built it has raised and reported it
                return None
