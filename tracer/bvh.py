"""Builds the bounding volume hierarchy over a scene's triangles, saying so about ten times a second."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracer.kernels import bvh_build as kernel
from tracer.kernels.layout import NODE, Records
from tracer.scene import Progress

STEP = 200_000
"""Triangles handled in one call: 0.02 to 0.1 s. A caller's heartbeat waits for no more."""
MARGIN = 2.0**-21
"""How much boxes are widened, relative to the scene's coordinates: a few units in their last place."""


def build_bvh(
    positions: NDArray[np.float32], triangles: NDArray[np.int32], progress: Progress
) -> tuple[Records, NDArray[np.int32]]:
    """nodes (n,) NODE with the root at 0, and order (t,) int32. One empty leaf for no triangles.

    positions (v, 3) finite; triangles (t, 3) in range.
    """
    total = len(triangles)
    bounds = np.empty((total, 6), np.float32)
    box = np.array([np.inf] * 3 + [-np.inf] * 3, np.float32)
    centers = np.empty((kernel.MAX_DEPTH + 1, 6), np.float32)
    centers[0] = box
    for begin in range(0, total, STEP):
        progress(f"measuring triangles, {begin} of {total}")
        end = min(begin + STEP, total)
        kernel.triangle_bounds(positions, triangles, begin, end, bounds)
        kernel.range_bounds(bounds, begin, end, box, centers[0])

    order = np.arange(total, dtype=np.int32)
    nodes = np.zeros(max(1, 2 * total - 1), NODE)
    if total == 0:
        return nodes, order
    nodes[0]["lo"], nodes[0]["hi"] = box[:3], box[3:]
    state = np.zeros(kernel.STATE, np.int64)
    state[kernel.NODES] = state[kernel.PENDING] = 1
    stack = np.zeros((kernel.MAX_DEPTH, 4), np.int64)
    stack[0] = 0, 0, total, 0
    counts = np.empty((3, kernel.BINS), np.int64)
    boxes, bin_centers = np.empty((2, 3, kernel.BINS, 6), np.float32)
    arrays = (state, stack, centers, counts, boxes, bin_centers, bounds, order, nodes)
    while not kernel.build_step(*arrays, STEP):
        progress(f"building the BVH, {state[kernel.NODES]} nodes")
    nodes = nodes[: state[kernel.NODES]].copy()
    # The triangle test rounds: it may hit a triangle a hair outside its box, where the ray runs within the
    # box's face or passes its corner.
    margin = np.float32(MARGIN) * np.abs(box).max()
    nodes["lo"] -= margin
    nodes["hi"] += margin
    return nodes, order
