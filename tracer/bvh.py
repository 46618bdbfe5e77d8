"""Builds the bounding volume hierarchy over a scene's triangles, saying so many times a second."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracer.kernels import bvh_build, bvh_collapse
from tracer.kernels.layout import NODE, Bvh, Records
from tracer.kernels.simd import LANES
from tracer.scene import Progress

STEP = 200_000
"""Triangles handled in one call: 0.02 to 0.1 s. A caller's heartbeat waits for no more."""

CACHE_LINE = 64

MARGIN = 2.0**-20
"""How much boxes are widened, relative to the largest coordinate. It covers all rounding of the box test, in
float32, and of the triangle test, which may hit a triangle a hair outside its box: a ray that meets a
triangle always meets its boxes."""

Float32 = NDArray[np.float32]
Int32 = NDArray[np.int32]


def build_bvh(positions: Float32, triangles: Int32, progress: Progress) -> Bvh:
    """positions (v, 3) finite; triangles (t, 3) in range. The same input gives the same arrays."""
    bounds, box, centers = _measure(positions, triangles, progress)
    tree = _build(bounds, box, centers, progress)
    return _collapse(tree, positions, triangles, box, progress)


def _measure(positions: Float32, triangles: Int32, progress: Progress) -> tuple[Float32, Float32, Float32]:
    """Boxes as bvh_build has them: of each triangle (t, 8), of all (8,), of the doubled centres (8,)."""
    total = len(triangles)
    bounds = _aligned((total, LANES), np.float32)
    box, centers = np.full((2, LANES), np.inf, np.float32)
    for begin in range(0, total, STEP):
        progress(f"measuring triangles, {begin} of {total}")
        end = min(begin + STEP, total)
        bvh_build.triangle_bounds(positions, triangles, begin, end, bounds)
        bvh_build.range_bounds(bounds, begin, end, box, centers)
    return bounds, box, centers


def _build(bounds: Float32, box: Float32, centers: Float32, progress: Progress) -> tuple[Records, Int32]:
    """The binary tree: nodes (n,) NODE with the root at 0, and the order of triangles in its leaves."""
    total = len(bounds)
    order = np.arange(total, dtype=np.int32)
    nodes = np.zeros(max(1, 2 * total - 1), NODE)
    if total == 0:
        return nodes, order
    nodes[0]["lo"], nodes[0]["hi"] = box[:3], -box[4:7]
    state = np.zeros(bvh_build.STATE, np.int64)
    state[bvh_build.NODES] = state[bvh_build.PENDING] = 1
    stack = np.zeros((bvh_build.MAX_DEPTH, 4), np.int64)
    stack[0] = 0, 0, total, 0
    pending_centers = _aligned((bvh_build.MAX_DEPTH + 1, LANES), np.float32)
    pending_centers[0] = centers
    counts = np.empty((3, bvh_build.BINS), np.int64)
    boxes, bin_centers = _aligned((2, 3, bvh_build.BINS, LANES), np.float32)
    arrays = (state, stack, pending_centers, counts, boxes, bin_centers, bounds, order, nodes)
    while not bvh_build.build_step(*arrays, STEP):
        progress(f"building the BVH, {state[bvh_build.NODES]} nodes")
    return nodes[: state[bvh_build.NODES]], order


def _collapse(
    tree: tuple[Records, Int32], positions: Float32, triangles: Int32, box: Float32, progress: Progress
) -> Bvh:
    nodes, order = tree
    leaves = int(np.count_nonzero(nodes["count"]))
    inner = max(1, len(nodes) - leaves)
    largest = float(np.abs(box).max()) if len(triangles) else 0.0
    margin = np.float32(MARGIN * largest)
    boxes = _aligned((inner, 6, LANES), np.float32)
    children = _aligned((inner, LANES), np.int32)
    corners = _aligned((leaves, 9, LANES), np.float32)
    members = _aligned((leaves, LANES), np.int32)
    costs = np.empty((len(nodes), LANES), np.float32)
    # Children have higher numbers than their parents.
    for end in range(len(nodes), 0, -STEP):
        progress(f"weighing the BVH, {end} nodes left")
        bvh_collapse.collapse_costs(nodes, max(0, end - STEP), end, costs)
    state = np.zeros(3, np.int64)
    stack = np.zeros((LANES * bvh_build.MAX_DEPTH, 2), np.int64)
    bounds = np.zeros(7)
    if len(triangles) == 0:
        # One node in which there is nothing.
        boxes[0, :3], boxes[0, 3:], children[0] = np.inf, -np.inf, 0
        state[bvh_collapse.NODES] = 1
        bounds[:3], bounds[3:6] = np.inf, -np.inf
    else:
        state[bvh_collapse.NODES] = state[bvh_collapse.PENDING] = 1
        bounds[:3], bounds[3:6] = box[:3].astype(np.float64) - margin, margin - box[4:7].astype(np.float64)
        bounds[6] = largest + margin
    arrays = (
        state,
        stack,
        nodes,
        costs,
        order,
        positions,
        triangles,
        margin,
        boxes,
        children,
        corners,
        members,
    )
    while not bvh_collapse.collapse_step(*arrays, STEP // (4 * LANES)):
        progress(f"widening the BVH, {state[bvh_collapse.NODES]} nodes")
    used = state[bvh_collapse.NODES]
    # Not copied: pages beyond what is used were never touched.
    return Bvh(boxes[:used], children[:used], corners, members, bounds)


def _aligned(shape: tuple[int, ...], kind: type[np.float32] | type[np.int32]) -> NDArray[Any]:
    """Like np.empty, but at the start of a cache line: a load of eight lanes never touches two lines."""
    size = math.prod(shape) * np.dtype(kind).itemsize
    raw = np.empty(size + CACHE_LINE, np.uint8)
    skip = -raw.ctypes.data % CACHE_LINE
    return raw[skip : skip + size].view(kind).reshape(shape)
