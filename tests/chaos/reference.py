"""The undisturbed frames: rendered in this process, tile by tile, without Temporal, store or checkpoints."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from activities.merge import Film, merge
from activities.scenes import SceneCache
from client.request import Options, make_requests
from client.upload import upload
from contracts import FramePlan, FrameRequest, Tile
from store import LocalStore
from tests.chaos.schedule import FRAME_TILE, Frame
from tracer import engine
from tracer.film import new_film
from tracer.render import render_samples
from tracer.scene import PixelRect
from workflows.tiling import tile_at, tile_count

SLICE = 20
"""Samples a kernel call."""
THREADS = 2


class Reference(NamedTuple):
    """What a frame has to be, and how fast its tiles are."""

    request: FrameRequest
    plan: FramePlan
    film_sha256: str
    exr_sha256: str
    rate: dict[str, float]
    """By tile: samples a pixel that one thread renders in a second, the fastest of its slices."""

    @property
    def tiles(self) -> list[Tile]:
        return [tile_at(self.plan, number) for number in range(tile_count(self.plan))]


class References:
    """Makes each frame's reference once, however many runs ask for it."""

    def __init__(self) -> None:
        self._known: dict[Frame, Reference] = {}

    def of(self, frame: Frame) -> Reference:
        if frame not in self._known:
            self._known[frame] = make_reference(frame)
        return self._known[frame]

    def prepare(self, frames: Iterable[Frame]) -> None:
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(self.of, frames))


def make_reference(frame: Frame) -> Reference:
    options = Options(samples_per_pixel=frame.samples, tile_size=FRAME_TILE, settings=frame.settings)
    [request], local = make_requests(frame.scene, [1], options)
    with tempfile.TemporaryDirectory(prefix="tessera-reference-") as name:
        folder = Path(name)
        store = LocalStore(folder / "store")
        upload(store, local, [request])
        sample_key = request.sample_key(engine.fingerprint())
        scene = SceneCache(store, 1).get(sample_key, request, lambda step: None)
        plan = FramePlan(
            sample_key=sample_key,
            engine=engine.fingerprint(),
            request=request,
            scene_hash=scene.hash,
            width=scene.width,
            height=scene.height,
            tile_size=FRAME_TILE,
        )
        rate: dict[str, float] = {}

        def film_of(tile: Tile) -> Film:
            film, rect = new_film(tile.width, tile.height), PixelRect(tile.x, tile.y, tile.width, tile.height)
            for first in range(0, frame.samples, SLICE):
                count = min(SLICE, frame.samples - first)
                began = time.perf_counter()
                render_samples(scene, film, rect, first, count)
                speed = count / (time.perf_counter() - began)
                rate[tile.tile_id] = max(speed, rate.get(tile.tile_id, 0.0))
            return film

        merged = merge(plan, request, folder, film_of)
        exr = hashlib.sha256(merged.exr.read_bytes()).hexdigest()
        return Reference(request, plan, merged.film_sha256, exr, rate)
