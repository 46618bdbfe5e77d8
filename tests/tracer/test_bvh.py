"""The hierarchy finds what testing every triangle finds, bit for bit, and no ray slips through a mesh."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.tracer.worlds import sphere
from tracer.bvh import STEP, build_bvh
from tracer.kernels import bvh_build, entry
from tracer.kernels.borrow import borrowed
from tracer.kernels.bvh_collapse import collapse_costs
from tracer.kernels.intersection import ANY_ID, MISS, closest_hit, hit_triangle, occluded
from tracer.kernels.layout import NODE, Bvh, Records
from tracer.kernels.simd import LANES
from tracer.kernels.wide import inverse_of, shear_of

Float64 = NDArray[np.float64]


@entry
def trace_all(bvh: Bvh, rays: Float64, out: Float64) -> None:
    """rays (n, 6): origin, direction. out (n, 5): triangle, t, b1, b2, and whether occluded before 1.5."""
    bvh = borrowed(bvh)
    for i in range(rays.shape[0]):
        o, d = (rays[i, 0], rays[i, 1], rays[i, 2]), (rays[i, 3], rays[i, 4], rays[i, 5])
        hit = closest_hit(bvh, o, d, 0.0, ANY_ID, math.inf)
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = hit.triangle, hit.t, hit.b1, hit.b2
        out[i, 4] = occluded(bvh, o, d, 1.5)


@entry
def try_all(bvh: Bvh, rays: Float64, out: Float64) -> None:
    """The same by testing every triangle of every block."""
    bvh = borrowed(bvh)
    for i in range(rays.shape[0]):
        o, d = (rays[i, 0], rays[i, 1], rays[i, 2]), (rays[i, 3], rays[i, 4], rays[i, 5])
        shear = shear_of(d, inverse_of(d))
        out[i, 0], out[i, 1], out[i, 2], out[i, 3], out[i, 4] = MISS, math.inf, 0.0, 0.0, 0.0
        for block in range(bvh.members.shape[0]):
            for lane in range(LANES):
                hit = hit_triangle(bvh, block, lane, o, shear)
                if hit.triangle != MISS and hit.t > 0.0:
                    if hit.t < out[i, 1]:
                        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = hit.triangle, hit.t, hit.b1, hit.b2
                    if hit.t < 1.5:
                        out[i, 4] = 1.0


@entry
def walk(bvh: Bvh, ray: Float64, triangles: NDArray[np.int64], ts: Float64) -> int:
    """Every hit along one ray, one after the other; how many."""
    bvh = borrowed(bvh)
    o, d = (ray[0], ray[1], ray[2]), (ray[3], ray[4], ray[5])
    t, after, count = 0.0, ANY_ID, 0
    while count < triangles.shape[0]:
        hit = closest_hit(bvh, o, d, t, after, math.inf)
        if hit.triangle == MISS:
            break
        triangles[count], ts[count] = hit.triangle, hit.t
        t, after = hit.t, hit.triangle
        count += 1
    return count


@entry
def collect(bvh: Bvh, ray: Float64, triangles: NDArray[np.int64], ts: Float64) -> int:
    """The same by testing every triangle, in any order."""
    bvh = borrowed(bvh)
    o, d = (ray[0], ray[1], ray[2]), (ray[3], ray[4], ray[5])
    count = 0
    for block in range(bvh.members.shape[0]):
        for lane in range(LANES):
            hit = hit_triangle(bvh, block, lane, o, shear_of(d, inverse_of(d)))
            if hit.triangle != MISS and hit.t > 0.0:
                triangles[count], ts[count] = hit.triangle, hit.t
                count += 1
    return count


class Triangles(NamedTuple):
    """corners (t, 3, 3) float32; bvh: what was built; plain: the same in blocks, without a hierarchy."""

    corners: NDArray[np.float32]
    bvh: Bvh
    plain: Bvh


def silent(step: str) -> None:
    pass


def made_of(positions: NDArray[np.floating], triangles: NDArray[np.integer]) -> Triangles:
    p, t = positions.astype(np.float32), triangles.astype(np.int32)
    corners = p[t]
    blocks = -(-len(t) // LANES)
    rows = np.full((blocks * LANES, 9), np.nan, np.float32)
    rows[: len(t)] = corners.reshape(-1, 9)
    plain = Bvh(
        np.zeros((1, 6, LANES), np.float32),
        np.zeros((1, LANES), np.int32),
        np.ascontiguousarray(rows.reshape(blocks, LANES, 9).transpose(0, 2, 1)),
        np.arange(blocks * LANES, dtype=np.int32).reshape(blocks, LANES),
        np.zeros(7),
    )
    return Triangles(corners, build_bvh(p, t, silent), plain)


def soup(seed: int, count: int, grid: int | None) -> Triangles:
    """Random triangles; on a coarse grid many coincide, share edges, or have no area."""
    random = np.random.default_rng(seed)
    if grid is None:
        p = random.normal(size=(count, 1, 3)) + random.normal(scale=0.3, size=(count, 3, 3))
    else:
        p = random.integers(-grid, grid + 1, (count, 3, 3)).astype(np.float64)
    return made_of(p.reshape(-1, 3), np.arange(3 * count).reshape(-1, 3))


def rays_for(seed: int, count: int, grid: int | None) -> Float64:
    random = np.random.default_rng(seed + 1)
    if grid is None:
        return np.hstack([random.normal(scale=3.0, size=(count, 3)), random.normal(size=(count, 3))])
    o = random.integers(-2 * grid, 2 * grid + 1, (count, 3)) * 0.5
    d = random.integers(-grid, grid + 1, (count, 3)).astype(np.float64)  # many along an axis or in a plane
    d *= random.choice([1.0, -1.0], (count, 3))  # zeros of both signs
    rays: Float64 = np.hstack([o, d])[(d != 0).any(axis=1)]
    return rays


def agree(triangles: Triangles, rays: Float64) -> Float64:
    """Traces the rays both ways, which must give the same bytes; what was found."""
    fast, slow = np.empty((2, len(rays), 5))
    trace_all(triangles.bvh, rays, fast)
    try_all(triangles.plain, rays, slow)
    assert fast.tobytes() == slow.tobytes()
    return slow


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 120), st.sampled_from([None, 1, 2, 5]))
def test_the_hierarchy_agrees_with_every_triangle(seed: int, count: int, grid: int | None) -> None:
    """Bit for bit, also where hits coincide (the lower number wins) and rays run within faces of boxes."""
    agree(soup(seed, count, grid), rays_for(seed, 200, grid))


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1.0, 1e6, 1e12])
def test_it_agrees_at_every_scale_and_off_center(scale: float) -> None:
    shift = np.array([10.0, -3.0, 5.0]) * scale
    positions = soup(5, 300, None).corners.reshape(-1, 3).astype(np.float64) * scale + shift
    rays = rays_for(5, 2000, None) * scale
    rays[:, :3] += shift
    found = agree(made_of(positions, np.arange(900).reshape(-1, 3)), rays)
    assert (found[:, 0] >= 0).mean() > 0.05


@pytest.mark.parametrize("distance", [1e2, 1e5, 1e8])
def test_it_agrees_seen_from_far_away(distance: float) -> None:
    """From there the scene is a few units in the last place of float32."""
    mesh = sphere(3)
    random = np.random.default_rng(1)
    away = random.normal(size=(3000, 3))
    away /= np.linalg.norm(away, axis=1, keepdims=True)
    origins = away * distance
    rays = np.hstack([origins, random.normal(scale=0.5, size=away.shape) - origins])
    found = agree(made_of(mesh.positions, mesh.triangles), rays)
    assert (found[:, 0] >= 0).mean() > 0.4


def test_it_agrees_on_triangles_of_very_different_size() -> None:
    """A ground plane a million times larger than what stands on it."""
    random = np.random.default_rng(2)
    small = random.normal(size=(500, 1, 3)) + random.normal(scale=0.1, size=(500, 3, 3))
    ground = np.array([[[-1e6, -1, -1e6], [1e6, -1, -1e6], [0, -1, 1e6]]])
    corners = np.concatenate([small, ground]).reshape(-1, 3)
    agree(made_of(corners, np.arange(len(corners)).reshape(-1, 3)), rays_for(3, 3000, None))


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 60), st.sampled_from([None, 1, 2]))
def test_a_ray_that_goes_on_meets_every_hit_in_order(seed: int, count: int, grid: int | None) -> None:
    triangles = soup(seed, count, grid)
    for ray in rays_for(seed, 10, grid):
        walked, ts = np.empty(count + 1, np.int64), np.empty(count + 1)
        n = walk(triangles.bvh, ray, walked, ts)
        all_of_them, all_ts = np.empty(count + 1, np.int64), np.empty(count + 1)
        m = collect(triangles.plain, ray, all_of_them, all_ts)
        expected = sorted(zip(all_ts[:m].tolist(), all_of_them[:m].tolist(), strict=True))
        assert list(zip(ts[:n].tolist(), walked[:n].tolist(), strict=True)) == expected


@pytest.mark.parametrize("subdivisions", [0, 2, 4])
def test_no_ray_leaves_a_closed_mesh(subdivisions: int) -> None:
    """From the inside through vertices, along edges and anywhere: something is always hit."""
    mesh = sphere(subdivisions)
    bvh = made_of(mesh.positions, mesh.triangles).bvh
    p = mesh.positions.astype(np.float32).astype(np.float64)
    a, b = p[mesh.triangles[:, 0]], p[mesh.triangles[:, 1]]
    random = np.random.default_rng(subdivisions)
    on_edges = np.concatenate([a + (b - a) * k for k in random.random(40)])
    targets = np.concatenate([p, on_edges, random.normal(size=(20_000, 3))])
    for origin in ([0.0, 0.0, 0.0], [0.1, -0.2, 0.05], [0.3, 0.0, 0.0], [0.0, 0.0, -0.5]):
        rays = np.hstack([np.tile(origin, (len(targets), 1)), targets - origin])
        out = np.empty((len(rays), 5))
        trace_all(bvh, rays, out)
        assert (out[:, 0] == MISS).sum() == 0
        assert out[: len(p) + len(on_edges), 1] == pytest.approx(1.0, abs=1e-6)


def test_barycentric_weights_say_where() -> None:
    triangles, rays, out = soup(1, 100, None), rays_for(1, 2000, None), np.empty((2000, 5))
    trace_all(triangles.bvh, rays, out)
    hit = out[:, 0] >= 0
    v = triangles.corners[out[hit, 0].astype(int)].astype(np.float64)
    b = np.stack([1.0 - out[hit, 2] - out[hit, 3], out[hit, 2], out[hit, 3]], axis=1)
    expected = rays[hit, :3] + rays[hit, 3:] * out[hit, 1:2]
    np.testing.assert_allclose((v * b[:, :, None]).sum(axis=1), expected, atol=1e-9)


ONE = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], np.float64)
ODD = {
    "nothing": np.zeros((0, 3)),
    "one": ONE,
    "nine": np.concatenate([ONE + k for k in range(9)]),
    "all the same": np.tile(ONE, (3000, 1)),
    "a row that shrinks": np.concatenate([ONE * 0.5**k for k in range(140)]),
    "a line": np.concatenate([ONE + np.array([k, 0, 0]) for k in range(1000)]),
    "huge": np.concatenate([ONE * 1e13 * k for k in range(1, 100)]),
    "tiny": np.concatenate([ONE * 1e-20 * k for k in range(1, 100)]),
}


@pytest.mark.parametrize("kind", ODD)
def test_odd_meshes_are_built_whole(kind: str) -> None:
    """Every triangle is in one leaf, inside all its boxes, and the tree is no deeper than the stack."""
    triangles = made_of(ODD[kind], np.arange(len(ODD[kind])).reshape(-1, 3))
    bvh = triangles.bvh
    seen: list[int] = []
    pending: list[tuple[int, int, list[tuple[NDArray[np.float32], NDArray[np.float32]]]]] = [(0, 1, [])]
    while pending:
        number, depth, outer = pending.pop()
        assert depth < bvh_build.MAX_DEPTH
        if number >= 0:
            for lane in range(LANES):
                lo, hi = bvh.boxes[number, :3, lane], bvh.boxes[number, 3:, lane]
                if (lo <= hi).all():
                    pending.append((int(bvh.children[number, lane]), depth + 1, [*outer, (lo, hi)]))
        else:
            used = np.isfinite(bvh.corners[~number, 0])
            members = bvh.members[~number][used]
            corners = bvh.corners[~number].T[used].reshape(-1, 3, 3)
            assert corners.tobytes() == triangles.corners[members].tobytes()
            for lo, hi in outer:
                assert (corners >= lo).all()
                assert (corners <= hi).all()
            seen += members.tolist()
    assert sorted(seen) == list(range(len(triangles.corners)))


def test_building_reports_its_steps_and_can_be_stopped() -> None:
    positions = soup(2, 2 * STEP, None).corners.reshape(-1, 3)
    triangles = np.arange(len(positions), dtype=np.int32).reshape(-1, 3)
    steps: list[str] = []
    build_bvh(positions, triangles, steps.append)
    # About 16 levels of two passes over all triangles: no step handles more than STEP of them.
    assert len(steps) > 16 * 2 * 2

    class Stopped(Exception):
        pass

    for at in (0, 2, len(steps) // 2, len(steps) - 1):
        left = [at]

        def stop(step: str, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise Stopped

        with pytest.raises(Stopped):
            build_bvh(positions, triangles, stop)


def test_the_same_triangles_give_the_same_tree() -> None:
    a, b = soup(3, 5000, None).bvh, soup(3, 5000, None).bvh
    assert [array.tobytes() for array in a] == [array.tobytes() for array in b]


def test_loads_of_eight_lanes_stay_within_cache_lines() -> None:
    for count in range(1, 200, 23):
        bvh = soup(count, count, None).bvh
        arrays = (bvh.boxes, bvh.children, bvh.corners, bvh.members)
        assert [array.ctypes.data % 64 for array in arrays] == [0, 0, 0, 0]


def random_tree(seed: int, leaves: int) -> Records:
    """Binary nodes with boxes that hold their children's, children after their parents."""
    random = np.random.default_rng(seed)
    nodes = np.zeros(2 * leaves - 1, NODE)
    used, waiting = 1, [(0, leaves)]
    while waiting:
        node, inside = waiting.pop(int(random.integers(len(waiting))))
        if inside == 1:
            nodes[node]["count"], nodes[node]["hi"] = 1, random.uniform(0.1, 1.0, 3)
            continue
        left = int(random.integers(1, inside))
        nodes[node]["first"] = used
        waiting += [(used, left), (used + 1, inside - left)]
        used += 2
    for node in nodes[::-1]:
        if node["count"] == 0:
            below = nodes[node["first"] : node["first"] + 2]["hi"]
            node["hi"] = np.maximum(*below) + random.uniform(0.0, 0.5, 3).astype(np.float32)
    return nodes


def cuts(nodes: Records, node: int, places: int) -> Iterator[list[int]]:
    """Every set of at most so many subtrees that together are the node's."""
    yield [node]
    if places > 1 and nodes[node]["count"] == 0:
        first = int(nodes[node]["first"])
        for left in cuts(nodes, first, places - 1):
            for right in cuts(nodes, first + 1, places - len(left)):
                yield left + right


def least_area(nodes: Records, node: int) -> float:
    """Of wide nodes that make up the tree, by trying all of them."""
    if nodes[node]["count"] > 0:
        return 0.0
    x, y, z = map(float, nodes[node]["hi"])
    choices = (cut for cut in cuts(nodes, node, LANES) if cut != [node])
    return x * y + y * z + z * x + min(sum(least_area(nodes, i) for i in cut) for cut in choices)


@pytest.mark.parametrize("seed", range(4))
def test_wide_nodes_have_the_least_area(seed: int) -> None:
    nodes = random_tree(seed, 11 + seed)
    costs = np.empty((len(nodes), LANES), np.float32)
    collapse_costs(nodes, 0, len(nodes), costs)
    assert costs[0, 0] == pytest.approx(least_area(nodes, 0), rel=1e-5)
