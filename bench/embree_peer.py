"""Rays against triangles and nothing else: our hierarchy beside embree's, one thread each, the same rays."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.timing import Spread, interleaved, ratios, spread, timed
from tracer.build import PreparedScene, silent
from tracer.bvh import build_bvh
from tracer.kernels import entry
from tracer.kernels.borrow import borrowed
from tracer.kernels.intersection import ANY_ID, closest_hit
from tracer.kernels.layout import Bvh

Float32 = NDArray[np.float32]


class Rays(NamedTuple):
    """(n, 3) each; embree takes float32, so that is what both are given."""

    origins: Float32
    directions: Float32


class Comparison(NamedTuple):
    """Ratios are our speed over embree's, by CPU time. differing: share of rays whose hits differ."""

    primary: Spread
    bounce: Spread
    build: Spread
    build_seconds: Spread
    megarays: tuple[float, float]
    differing: float


def missing() -> str:
    try:
        import embreex  # noqa: F401
    except ImportError as error:
        return f"embreex cannot be imported: {error}"
    return ""


@entry
def closest_hits(bvh: Bvh, origins: Float32, directions: Float32, distances: Float32) -> None:
    """distances (n,): infinity where nothing is hit."""
    bvh = borrowed(bvh)
    for i in range(len(origins)):
        o = (float(origins[i, 0]), float(origins[i, 1]), float(origins[i, 2]))
        d = (float(directions[i, 0]), float(directions[i, 1]), float(directions[i, 2]))
        distances[i] = closest_hit(bvh, o, d, 0.0, ANY_ID, np.inf).t


def build_seconds(scene: PreparedScene, repeats: int) -> Spread:
    """CPU seconds of our build."""
    with one_processor():
        return spread([timed(lambda: _build_ours(scene)).cpu for _ in range(repeats)])


def compare(scene: PreparedScene, edge: int, repeats: int) -> Comparison:
    """edge * edge camera rays in the order of the picture, and one diffuse bounce of each."""
    with one_processor():
        g = scene.arrays.geometry
        built = interleaved(
            {"ours": lambda: _build_ours(scene), "embree": lambda: _Embree(g.positions, g.triangles)}, repeats
        )
        embree = _Embree(g.positions, g.triangles)
        primary = primary_rays(scene, edge)
        bounce = bounce_rays(scene, primary)
        found, differing = [], 0.0
        for rays in (primary, bounce):
            distances = np.empty(len(rays.origins), np.float32)
            calls: dict[str, Callable[[], object]] = {
                "ours": partial(closest_hits, scene.arrays.bvh, rays.origins, rays.directions, distances),
                "embree": partial(embree.distances, rays),
            }
            times = interleaved(calls, repeats)
            rate = len(rays.origins) / spread([t.cpu for t in times["ours"]]).median / 1e6
            found.append((ratios(times["ours"], times["embree"])[0], rate))
            theirs = embree.distances(rays)
            same = np.isclose(distances, theirs, rtol=1e-3) | ((theirs > 1e30) & np.isinf(distances))
            differing = max(differing, float(1.0 - same.mean()))
    return Comparison(
        found[0][0],
        found[1][0],
        ratios(built["ours"], built["embree"])[0],
        spread([t.cpu for t in built["ours"]]),
        (found[0][1], found[1][1]),
        differing,
    )


def _build_ours(scene: PreparedScene) -> Bvh:
    return build_bvh(scene.arrays.geometry.positions, scene.arrays.geometry.triangles, silent)


class _Embree:
    def __init__(self, positions: Float32, triangles: NDArray[np.int32]) -> None:
        from embreex.mesh_construction import TriangleMesh
        from embreex.rtcore_scene import EmbreeScene

        self._scene: Any = EmbreeScene()
        self._mesh = TriangleMesh(self._scene, positions, triangles)
        ray = np.array([[0, 0, 1]], np.float32)
        self._scene.run(ray, ray)  # builds at the first ray

    def distances(self, rays: Rays) -> Float32:
        found: Float32 = self._scene.run(*rays, query="DISTANCE")
        return found


@contextmanager
def one_processor() -> Iterator[None]:
    """embree builds with as many threads as there are processors to run on."""
    all_of_them = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(all_of_them)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, all_of_them)


def primary_rays(scene: PreparedScene, edge: int) -> Rays:
    view = scene.arrays.frame[0]
    y, x = np.mgrid[0:edge, 0:edge].reshape(2, -1) + 0.5
    across, up = (2 * x / edge - 1) * view["tan_x"], (1 - 2 * y / edge) * view["tan_y"]
    d = view["forward"] + across[:, None] * view["right"] + up[:, None] * view["up"]
    d /= np.linalg.norm(d, axis=1, keepdims=True)
    origins = np.broadcast_to(view["origin"], d.shape)
    return Rays(np.ascontiguousarray(origins, np.float32), d.astype(np.float32))


def bounce_rays(scene: PreparedScene, rays: Rays) -> Rays:
    """From where they hit, cosine distributed about the side that they hit, in the same order."""
    distances = np.empty(len(rays.origins), np.float32)
    closest_hits(scene.arrays.bvh, rays.origins, rays.directions, distances)
    hit = np.isfinite(distances)
    points = rays.origins[hit] + distances[hit, None] * rays.directions[hit]
    ahead = rays.directions[hit]
    # The normal of a hill is about +Y; a unit vector added to it is cosine distributed about it.
    random = np.random.default_rng(1).normal(size=points.shape)
    d = random / np.linalg.norm(random, axis=1, keepdims=True) + (0.0, 1.0, 0.0)
    d /= np.linalg.norm(d, axis=1, keepdims=True)
    return Rays((points - 1e-3 * ahead).astype(np.float32), d.astype(np.float32))
