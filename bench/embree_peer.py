"""Closest hits and hierarchies beside Embree's (embreex), on one thread and the same triangles.

embreex walks its rays one at a time in Cython: what is measured is Embree's single-ray query with a thin loop
around it, and so is ours.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.measuring import clocked, spread
from tracer.build import PreparedScene, silent
from tracer.bvh import build_bvh
from tracer.kernels import entry
from tracer.kernels.borrow import borrowed
from tracer.kernels.intersection import ANY_ID, closest_hit
from tracer.kernels.layout import Bvh

EDGE = 512
"""Primary rays are EDGE x EDGE, in the order of the picture."""
SAME = 0.999
"""Share of rays that must hit the same triangle: on shared edges either one is right."""


class Rays(NamedTuple):
    """origins, directions (n, 3) float32."""

    origins: NDArray[np.float32]
    directions: NDArray[np.float32]


@entry
def trace(
    bvh: Bvh, origins: NDArray[np.float32], directions: NDArray[np.float32], triangles: NDArray[np.int32]
) -> None:
    """triangles (n,): the number of the first triangle that each ray hits, -1 for none."""
    bvh = borrowed(bvh)
    for i in range(len(triangles)):
        o = (float(origins[i, 0]), float(origins[i, 1]), float(origins[i, 2]))
        d = (float(directions[i, 0]), float(directions[i, 1]), float(directions[i, 2]))
        triangles[i] = closest_hit(bvh, o, d, 0.0, ANY_ID, math.inf).triangle


class EmbreeScene:
    """The triangles of a prepared scene in Embree. Raises ImportError where embreex is not installed."""

    def __init__(self, scene: PreparedScene) -> None:
        from embreex import mesh_construction, rtcore_scene  # type: ignore[import-not-found,import-untyped,unused-ignore]

        geometry = scene.arrays.geometry
        self._scene: Any = rtcore_scene.EmbreeScene()
        self._mesh = mesh_construction.TriangleMesh(self._scene, geometry.positions, geometry.triangles)
        # The hierarchy is built by the first query.
        self.trace(Rays(np.zeros((1, 3), np.float32), np.ones((1, 3), np.float32)))

    def trace(self, rays: Rays) -> NDArray[np.int32]:
        return np.asarray(self._scene.run(rays.origins, rays.directions))


def primary_rays(scene: PreparedScene) -> Rays:
    view = scene.arrays.frame[0]
    line = (np.arange(EDGE) + 0.5) / EDGE * 2.0 - 1.0
    x, y = (a.ravel()[:, None] for a in np.meshgrid(line * view["tan_x"], -line * view["tan_y"]))
    d = view["forward"] + x * view["right"] + y * view["up"]
    d /= np.linalg.norm(d, axis=1, keepdims=True)
    return Rays(np.tile(view["origin"], (len(d), 1)).astype(np.float32), d.astype(np.float32))


def bounce_rays(scene: PreparedScene, rays: Rays, hits: NDArray[np.int32]) -> Rays:
    """From where the rays hit, cosine-distributed about the side that they came from."""
    geometry, hit = scene.arrays.geometry, hits >= 0
    corners = geometry.positions[geometry.triangles[hits[hit]]].astype(np.float64)
    n = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    n /= np.linalg.norm(n, axis=1, keepdims=True)
    o, d = rays.origins[hit].astype(np.float64), rays.directions[hit].astype(np.float64)
    n *= -np.sign((n * d).sum(1, keepdims=True))
    t = ((corners[:, 0] - o) * n).sum(1, keepdims=True) / (d * n).sum(1, keepdims=True)
    turn = np.random.default_rng(3).normal(size=n.shape)
    bounced = n + turn / np.linalg.norm(turn, axis=1, keepdims=True) * 0.999
    bounced /= np.linalg.norm(bounced, axis=1, keepdims=True)
    return Rays((o + t * d + 1e-4 * n).astype(np.float32), bounced.astype(np.float32))


def rows(scene: PreparedScene, repeats: int) -> Iterator[str]:
    """Rows of the table; speeds are of CPU time, so that Embree's builder may use threads."""
    bvh, geometry = scene.arrays.bvh, scene.arrays.geometry
    try:
        embree = EmbreeScene(scene)
    except ImportError as error:
        yield f"closest hit and BVH build: skipped: {error}"
        return
    primary = primary_rays(scene)
    for name, rays in (("primary", primary), ("bounce", bounce_rays(scene, primary, embree.trace(primary)))):
        found = np.empty(len(rays.origins), np.int32)
        trace(bvh, rays.origins, rays.directions, found)  # compiles
        same = float(np.mean(found == embree.trace(rays)))
        if same < SAME:
            yield f"closest hit, {name}: not measured: only {100 * same:.2f} % hit the same triangle"
            continue
        times = []
        for _ in range(repeats):
            ours = clocked(partial(trace, bvh, rays.origins, rays.directions, found))
            times.append((ours.cpu, clocked(partial(embree.trace, rays)).cpu))
        rate = len(found) / statistics.median(ours for ours, _ in times) / 1e6
        ratio = spread([theirs / ours for ours, theirs in times])
        yield f"closest hit, {name:8} {ratio:22} ours {rate:.2f} Mrays/s, {100 * same:.3f} % agree"
    built = []
    for _ in range(repeats):
        began = time.process_time()
        build_bvh(geometry.positions, geometry.triangles, silent)
        built.append((time.process_time() - began, clocked(lambda: EmbreeScene(scene)).cpu))
    seconds = spread([ours for ours, _ in built])
    ratio = spread([ours / theirs for ours, theirs in built])
    yield f"BVH build, {len(geometry.triangles):,} triangles: {seconds} CPU s; ours / embreex {ratio}"
