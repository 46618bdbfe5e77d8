"""The hierarchy finds what testing every triangle finds, bit for bit, and no ray slips through a mesh."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.tracer.worlds import sphere
from tracer.bvh import STEP, build_bvh
from tracer.kernels import bvh_build, entry
from tracer.kernels.borrow import borrowed
from tracer.kernels.intersection import ANY_ID, MISS, closest_hit, hit_triangle, occluded, shear_of
from tracer.kernels.layout import Geometry

Float64 = NDArray[np.float64]


@entry
def trace_all(geometry: Geometry, rays: Float64, out: Float64) -> None:
    """rays (n, 6): origin, direction. out (n, 5): triangle, t, b1, b2, and whether occluded before 1.5."""
    geometry = borrowed(geometry)
    for i in range(rays.shape[0]):
        o, d = (rays[i, 0], rays[i, 1], rays[i, 2]), (rays[i, 3], rays[i, 4], rays[i, 5])
        hit = closest_hit(geometry, o, d, 0.0, ANY_ID, math.inf)
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = hit.triangle, hit.t, hit.b1, hit.b2
        out[i, 4] = occluded(geometry, o, d, 1.5)


@entry
def test_all(geometry: Geometry, rays: Float64, out: Float64) -> None:
    """The same by testing every triangle."""
    geometry = borrowed(geometry)
    for i in range(rays.shape[0]):
        o, d = (rays[i, 0], rays[i, 1], rays[i, 2]), (rays[i, 3], rays[i, 4], rays[i, 5])
        shear = shear_of(d)
        out[i, 0], out[i, 1], out[i, 2], out[i, 3], out[i, 4] = MISS, math.inf, 0.0, 0.0, 0.0
        for t in range(geometry.triangles.shape[0]):
            hit = hit_triangle(geometry, t, o, shear)
            if hit.triangle != MISS and hit.t > 0.0:
                if hit.t < out[i, 1]:
                    out[i, 0], out[i, 1], out[i, 2], out[i, 3] = hit.triangle, hit.t, hit.b1, hit.b2
                if hit.t < 1.5:
                    out[i, 4] = 1.0


test_all.__test__ = False  # type: ignore[attr-defined]


@entry
def walk(geometry: Geometry, ray: Float64, triangles: NDArray[np.int64], ts: Float64) -> int:
    """Every hit along one ray, one after the other; how many."""
    geometry = borrowed(geometry)
    o, d = (ray[0], ray[1], ray[2]), (ray[3], ray[4], ray[5])
    t, after, count = 0.0, ANY_ID, 0
    while count < triangles.shape[0]:
        hit = closest_hit(geometry, o, d, t, after, math.inf)
        if hit.triangle == MISS:
            break
        triangles[count], ts[count] = hit.triangle, hit.t
        t, after = hit.t, hit.triangle
        count += 1
    return count


def silent(step: str) -> None:
    pass


def geometry_of(positions: NDArray[np.floating], triangles: NDArray[np.integer]) -> Geometry:
    p, t = positions.astype(np.float32), triangles.astype(np.int32)
    return Geometry(*build_bvh(p, t, silent), t, p)


def soup(seed: int, count: int, grid: int | None) -> Geometry:
    """Random triangles; on a coarse grid many coincide, share edges, or have no area."""
    random = np.random.default_rng(seed)
    if grid is None:
        p = random.normal(size=(count, 1, 3)) + random.normal(scale=0.3, size=(count, 3, 3))
    else:
        p = random.integers(-grid, grid + 1, (count, 3, 3)).astype(np.float64)
    return geometry_of(p.reshape(-1, 3), np.arange(3 * count).reshape(-1, 3))


def rays_for(seed: int, count: int, grid: int | None) -> Float64:
    random = np.random.default_rng(seed + 1)
    if grid is None:
        return np.hstack([random.normal(scale=3.0, size=(count, 3)), random.normal(size=(count, 3))])
    o = random.integers(-2 * grid, 2 * grid + 1, (count, 3)) * 0.5
    d = random.integers(-grid, grid + 1, (count, 3)).astype(np.float64)  # many along an axis or in a plane
    rays: Float64 = np.hstack([o, d])[(d != 0).any(axis=1)]
    return rays


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 120), st.sampled_from([None, 1, 2, 5]))
def test_the_hierarchy_agrees_with_every_triangle(seed: int, count: int, grid: int | None) -> None:
    """Bit for bit, also where hits coincide (the lower number wins) and rays run within faces of boxes."""
    geometry, rays = soup(seed, count, grid), rays_for(seed, 200, grid)
    fast, slow = np.empty((2, len(rays), 5))
    trace_all(geometry, rays, fast)
    test_all(geometry, rays, slow)
    assert fast.tobytes() == slow.tobytes()


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1.0, 1e6, 1e12])
def test_it_agrees_at_every_scale_and_off_center(scale: float) -> None:
    positions = soup(5, 300, None).positions.astype(np.float64) * scale + np.array([10.0, -3.0, 5.0]) * scale
    geometry = geometry_of(positions, np.arange(900).reshape(-1, 3))
    rays = rays_for(5, 2000, None) * scale
    rays[:, :3] += np.array([10.0, -3.0, 5.0]) * scale
    fast, slow = np.empty((2, len(rays), 5))
    trace_all(geometry, rays, fast)
    test_all(geometry, rays, slow)
    assert (slow[:, 0] >= 0).mean() > 0.05
    assert fast.tobytes() == slow.tobytes()


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 60), st.sampled_from([None, 1, 2]))
def test_a_ray_that_goes_on_meets_every_hit_once_and_in_order(
    seed: int, count: int, grid: int | None
) -> None:
    geometry = soup(seed, count, grid)
    for ray in rays_for(seed, 10, grid):
        triangles, ts = np.empty(count + 1, np.int64), np.empty(count + 1)
        n = walk(geometry, ray, triangles, ts)
        o, d = tuple(ray[:3].tolist()), tuple(ray[3:].tolist())
        hits = [hit_triangle(geometry, t, o, shear_of(d)) for t in range(count)]
        expected = sorted((h.t, h.triangle) for h in hits if h.triangle != MISS and h.t > 0.0)
        assert list(zip(ts[:n].tolist(), triangles[:n].tolist(), strict=True)) == expected


@pytest.mark.parametrize("subdivisions", [0, 2, 4])
def test_no_ray_leaves_a_closed_mesh(subdivisions: int) -> None:
    """From the inside through vertices, along edges and anywhere: something is always hit."""
    mesh = sphere(subdivisions)
    geometry = geometry_of(mesh.positions, mesh.triangles)
    p = geometry.positions.astype(np.float64)
    a, b = p[mesh.triangles[:, 0]], p[mesh.triangles[:, 1]]
    random = np.random.default_rng(subdivisions)
    on_edges = np.concatenate([a + (b - a) * k for k in random.random(40)])
    targets = np.concatenate([p, on_edges, random.normal(size=(20_000, 3))])
    for origin in ([0.0, 0.0, 0.0], [0.1, -0.2, 0.05], [0.3, 0.0, 0.0], [0.0, 0.0, -0.5]):
        rays = np.hstack([np.tile(origin, (len(targets), 1)), targets - origin])
        out = np.empty((len(rays), 5))
        trace_all(geometry, rays, out)
        assert (out[:, 0] == MISS).sum() == 0
        assert out[: len(p) + len(on_edges), 1] == pytest.approx(1.0, abs=1e-6)


def test_barycentric_weights_say_where() -> None:
    geometry = soup(1, 100, None)
    rays, out = rays_for(1, 2000, None), np.empty((2000, 5))
    trace_all(geometry, rays, out)
    hit = out[:, 0] >= 0
    v = geometry.positions[geometry.triangles[out[hit, 0].astype(int)]].astype(np.float64)
    b = np.stack([1.0 - out[hit, 2] - out[hit, 3], out[hit, 2], out[hit, 3]], axis=1)
    np.testing.assert_allclose(
        (v * b[:, :, None]).sum(axis=1), rays[hit, :3] + rays[hit, 3:] * out[hit, 1:2], atol=1e-9
    )


@pytest.mark.parametrize(
    "kind", ["nothing", "one", "all the same", "a row that shrinks", "a line", "huge", "tiny"]
)
def test_odd_meshes_are_built_whole(kind: str) -> None:
    """Every triangle is in one leaf, inside its boxes, and the tree is no deeper than the stack."""
    one = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], np.float64)
    repeated = {
        "nothing": np.zeros((0, 3)),
        "one": one,
        "all the same": np.tile(one, (3000, 1)),
        "a row that shrinks": np.concatenate([one * 0.5**k for k in range(140)]),
        "a line": np.concatenate([one + np.array([k, 0, 0]) for k in range(1000)]),
        "huge": np.concatenate([one * 1e14 * k for k in range(1, 100)]),
        "tiny": np.concatenate([one * 1e-20 * k for k in range(1, 100)]),
    }[kind]
    geometry = geometry_of(repeated, np.arange(len(repeated)).reshape(-1, 3))
    seen: list[int] = []
    pending = [(0, 1)]
    while pending:
        number, depth = pending.pop()
        assert depth < bvh_build.MAX_DEPTH
        node = geometry.nodes[number]
        first, count = int(node["first"]), int(node["count"])
        if count > 0:
            numbers = geometry.order[first : first + count]
            corners = geometry.positions[geometry.triangles[numbers]].reshape(-1, 3)
            assert (corners >= node["lo"]).all()
            assert (corners <= node["hi"]).all()
            seen += numbers.tolist()
        elif len(repeated):
            pending += [(first, depth + 1), (first + 1, depth + 1)]
    assert sorted(seen) == list(range(len(repeated) // 3))


def test_building_reports_its_steps_and_can_be_stopped() -> None:
    geometry = soup(2, 2 * STEP, None)
    steps: list[str] = []
    build_bvh(geometry.positions, geometry.triangles, steps.append)
    # About 18 levels of two passes over all triangles: no step handles more than STEP of them.
    assert len(steps) > 2 * 10 * 2 * STEP / STEP

    class Stopped(Exception):
        pass

    def stop(step: str) -> None:
        raise Stopped

    with pytest.raises(Stopped):
        build_bvh(geometry.positions, geometry.triangles, stop)


def test_the_same_triangles_give_the_same_tree() -> None:
    a, b = soup(3, 5000, None), soup(3, 5000, None)
    assert a.nodes.tobytes() == b.nodes.tobytes()
    assert a.order.tobytes() == b.order.tobytes()
