"""What the tracer costs on its own: waves, memory, and a worker's start."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from bench.measuring import clocked, spread
from tracer.build import PreparedScene
from tracer.film import new_film
from tracer.render import render_samples
from tracer.scene import PixelRect

WAVE, SAMPLES, TILE = 8, 64, 64
STARTS = 3
START = "import worker; from tracer.render import warm; warm()"
"""All that a worker does before its first sample, but connecting to its server."""


def waves(scene: PreparedScene, repeats: int) -> str:
    tile = PixelRect((scene.width - TILE) // 2, (scene.height - TILE) // 2, TILE, TILE)

    def render(wave: int) -> None:
        film = new_film(TILE, TILE)
        for first in range(0, SAMPLES, wave):
            render_samples(scene, film, tile, first, wave)

    # The order changes in turn: what warms the caches for the other must not always be the same.
    ratios = []
    for turn in range(2 * repeats):
        order = (WAVE, SAMPLES) if turn % 2 else (SAMPLES, WAVE)
        times = {wave: clocked(lambda w=wave: render(w)).cpu for wave in order}  # type: ignore[misc]
        ratios.append(100.0 * (times[WAVE] / times[SAMPLES] - 1.0))
    return (
        f"waves of {WAVE} against one of {SAMPLES}, a tile of {TILE}x{TILE}: {spread(ratios)} % more CPU time"
    )


def memory(scene: PreparedScene) -> str:
    arrays = scene.arrays
    count = len(arrays.geometry.triangles)
    hierarchy = sum(a.nbytes for a in arrays.bvh)
    shading = sum(a.nbytes for a in (*arrays.geometry, *arrays.surfaces, arrays.lights.emitter_pdf))
    return (
        f"bytes a triangle: {(hierarchy + shading) / count:.1f} "
        f"(hierarchy {hierarchy / count:.1f}, shading {shading / count:.1f})"
    )


def start() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="tessera-bench-") as cache:
        environment = {**os.environ, "TESSERA_CACHE": cache}

        def run() -> None:
            subprocess.run([sys.executable, "-c", START], env=environment, check=True)

        cold = clocked(run).wall
        warm = [clocked(run).wall for _ in range(STARTS)]
    yield f"worker start, kernels not compiled: {cold:.1f} s"
    yield f"worker start, kernels cached: {statistics.median(warm):.2f} s ({min(warm):.2f}-{max(warm):.2f})"
