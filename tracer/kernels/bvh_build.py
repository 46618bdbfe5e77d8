"""Building the binary BVH: binned surface area heuristic, in steps of bounded work.

I. Wald, "On fast Construction of SAH-based Bounding Volume Hierarchies", 2007. One call of `build_step`
handles about `budget` triangles and comes back, so that whoever builds can beat while it works.

A box is a row of eight floats here: its lower corner, 0, its higher corner negated, 0. One minimum of two
rows unites them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracer.kernels import device, entry, inlined
from tracer.kernels.layout import Records
from tracer.kernels.simd import (
    LANES,
    Float8,
    first_three,
    least,
    load,
    local_array,
    put,
    splat,
    swapped_halves,
)

BINS = 16
MAX_LEAF = 8
"""Triangles that are tested at once, and so cost no more than one."""
TRAVERSAL_COST = np.float32(0.3)
"""Of visiting a node, in tests of a leaf. Three levels of the binary tree become one."""
HALVING_DEPTH = 56
"""From here on nodes are halved whatever the heuristic says: it bounds the depth, and so the stacks."""
MAX_DEPTH = HALVING_DEPTH + 32

# state: where the build stands between two steps
PHASE, PENDING, NODES, NODE, BEGIN, END, DEPTH, LEFT, RIGHT, AXIS, SPLIT = range(11)
STATE = 11
NEXT, BINNING, PARTITION = range(3)

HIGHER = 4
"""From the lower corner of a box to the higher one."""
INFINITY = np.float32(np.inf)
Float32 = NDArray[np.float32]


@entry
def triangle_bounds(
    positions: Float32, triangles: NDArray[np.int32], begin: int, end: int, out: Float32
) -> None:
    """out[begin:end] = the box of each triangle; out is (t, 8)."""
    for t in range(begin, end):
        for axis in range(3):
            a = positions[triangles[t, 0], axis]
            b = positions[triangles[t, 1], axis]
            c = positions[triangles[t, 2], axis]
            out[t, axis] = min(a, b, c)
            out[t, axis + HIGHER] = -max(a, b, c)
        out[t, 3], out[t, 7] = np.float32(0.0), np.float32(0.0)


@inlined
def _doubled_center(box: Float8) -> Float8:
    """lo + hi as a box of one point."""
    return box - swapped_halves(box)


@entry
def range_bounds(bounds: Float32, begin: int, end: int, box: Float32, centers: Float32) -> None:
    """Widens the boxes box and centers by the triangles begin..end: by their boxes, and by lo + hi."""
    whole, points = load(box, 0), load(centers, 0)
    for t in range(begin, end):
        own = load(bounds, t * LANES)
        whole, points = least(whole, own), least(points, _doubled_center(own))
    put(box, 0, whole)
    put(centers, 0, points)


@inlined
def _bins_per_unit(centers: Float32, axis: int) -> np.float32:
    """0 where the centers have no extent that can be divided."""
    extent = -centers[axis + HIGHER] - centers[axis]
    per_unit = np.float32(BINS) / extent
    return per_unit if extent > 0.0 and per_unit < INFINITY else np.float32(0.0)


@inlined
def _bin(center: np.float32, lowest: np.float32, per_unit: np.float32) -> int:
    """The bin of a triangle with this (doubled) center along an axis."""
    return min(BINS - 1, int((center - lowest) * per_unit))


@inlined
def _fill_bins(
    here: Float32,
    bounds: Float32,
    begin: int,
    end: int,
    counts: NDArray[np.int64],
    boxes: Float32,
    bin_centers: Float32,
) -> None:
    """Puts the triangles begin..end into the bins of all three axes."""
    px, py, pz = _bins_per_unit(here, 0), _bins_per_unit(here, 1), _bins_per_unit(here, 2)
    for t in range(begin, end):
        box = load(bounds, t * LANES)
        point = _doubled_center(box)
        x, y, z = first_three(point)
        bins = (_bin(x, here[0], px), BINS + _bin(y, here[1], py), 2 * BINS + _bin(z, here[2], pz))
        for axis in range(3):
            at = bins[axis]
            counts[axis, at - axis * BINS] += 1
            put(boxes, at * LANES, least(load(boxes, at * LANES), box))
            put(bin_centers, at * LANES, least(load(bin_centers, at * LANES), point))


@entry
def build_step(
    state: NDArray[np.int64],
    stack: NDArray[np.int64],
    centers: Float32,
    counts: NDArray[np.int64],
    boxes: Float32,
    bin_centers: Float32,
    bounds: Float32,
    order: NDArray[np.int32],
    nodes: Records,
    budget: int,
) -> bool:
    """Works on about budget triangles; True when the tree is done.

    bounds (t, 8) are kept in the same order as order: what is read together lies together.
    stack (MAX_DEPTH, 4): node, begin, end, depth of subtrees to build; centers (MAX_DEPTH + 1, 8) beside
    it, the last row for the node at work. counts (3, BINS), boxes and bin_centers (3, BINS, 8) are its bins.
    """
    here = centers[MAX_DEPTH]
    while budget > 0:
        if state[PHASE] == NEXT:
            if state[PENDING] == 0:
                return True
            budget -= 1
            _take_next(state, stack, centers)
            if state[END] - state[BEGIN] <= 1:
                _make_leaf(state, nodes)
            else:
                counts[:] = 0
                boxes[:] = INFINITY
                bin_centers[:] = INFINITY
                state[PHASE] = BINNING
                state[LEFT] = state[BEGIN]
        elif state[PHASE] == BINNING:
            begin = state[LEFT]
            end = min(state[END], begin + budget)
            _fill_bins(here, bounds, begin, end, counts, boxes, bin_centers)
            state[LEFT] = end
            budget -= end - begin
            if end == state[END]:
                _choose_split(state, here, counts, boxes, nodes)
        else:
            budget -= _partition(state, here, bounds, order, budget)
            if state[LEFT] == state[RIGHT]:
                _split(state, stack, centers, boxes, bin_centers, nodes)
    return False


@device
def _take_next(state: NDArray[np.int64], stack: NDArray[np.int64], centers: Float32) -> None:
    state[PENDING] -= 1
    top = state[PENDING]
    state[NODE], state[BEGIN], state[END], state[DEPTH] = (
        stack[top, 0],
        stack[top, 1],
        stack[top, 2],
        stack[top, 3],
    )
    put(centers, MAX_DEPTH * LANES, load(centers, top * LANES))


@device
def _make_leaf(state: NDArray[np.int64], nodes: Records) -> None:
    nodes[state[NODE]].first = state[BEGIN]
    nodes[state[NODE]].count = state[END] - state[BEGIN]
    state[PHASE] = NEXT


@inlined
def _half_area(box: Float8) -> np.float32:
    x, y, z = first_three(box + swapped_halves(box))  # negated
    area: np.float32 = x * y + y * z + z * x
    return area


@inlined
def _leaves(count: int) -> np.float32:
    """Tests that so many triangles cost at least."""
    return np.float32((count + MAX_LEAF - 1) // MAX_LEAF)


@device
def _choose_split(
    state: NDArray[np.int64], here: Float32, counts: NDArray[np.int64], boxes: Float32, nodes: Records
) -> None:
    """Leaf, or the bin border with the least expected cost; AXIS is -1 where the node is to be halved."""
    total = state[END] - state[BEGIN]
    best, best_axis, best_split = INFINITY, -1, 0
    right_cost = local_array(np.float32, BINS)
    whole = np.float32(0.0)
    for axis in range(3):
        if _bins_per_unit(here, axis) == 0.0:
            continue
        box, count = splat(INFINITY), 0
        for b in range(BINS - 1, 0, -1):
            box = least(box, load(boxes, (axis * BINS + b) * LANES))
            count += counts[axis, b]
            right_cost[b] = _half_area(box) * _leaves(count) if count > 0 else np.float32(0.0)
        box, count = splat(INFINITY), 0
        for b in range(BINS - 1):
            box = least(box, load(boxes, (axis * BINS + b) * LANES))
            count += counts[axis, b]
            if 0 < count < total:
                cost = _half_area(box) * _leaves(count) + right_cost[b + 1]
                if cost < best:
                    best, best_axis, best_split = cost, axis, b
        whole = _half_area(least(box, load(boxes, (axis * BINS + BINS - 1) * LANES)))
    if total <= MAX_LEAF and not best + TRAVERSAL_COST * whole < whole * _leaves(total):
        _make_leaf(state, nodes)
        return
    if state[DEPTH] >= HALVING_DEPTH:
        best_axis = -1
    state[AXIS], state[SPLIT] = best_axis, best_split
    state[LEFT], state[RIGHT] = state[BEGIN], state[END]
    state[PHASE] = PARTITION


@device
def _partition(
    state: NDArray[np.int64], here: Float32, bounds: Float32, order: NDArray[np.int32], budget: int
) -> int:
    """Moves triangles left of the split to the front, at most budget of them; the number looked at."""
    left, right, axis = state[LEFT], state[RIGHT], state[AXIS]
    if axis < 0:
        state[LEFT] = state[RIGHT] = (state[BEGIN] + state[END]) // 2
        return 1
    looked, lowest, per_unit = 0, here[axis], _bins_per_unit(here, axis)
    while left < right and looked < budget:
        looked += 1
        if _bin(bounds[left, axis] - bounds[left, axis + HIGHER], lowest, per_unit) <= state[SPLIT]:
            left += 1
        else:
            right -= 1
            order[left], order[right] = order[right], order[left]
            moved = load(bounds, left * LANES)
            put(bounds, left * LANES, load(bounds, right * LANES))
            put(bounds, right * LANES, moved)
    state[LEFT], state[RIGHT] = left, right
    return looked


@device
def _split(
    state: NDArray[np.int64],
    stack: NDArray[np.int64],
    centers: Float32,
    boxes: Float32,
    bin_centers: Float32,
    nodes: Records,
) -> None:
    """Makes the two children and puts them on the stack."""
    axis, first, node = state[AXIS], state[NODES], state[NODE]
    state[NODES] += 2
    nodes[node].first = first
    nodes[node].count = 0
    for side in range(2):
        top = state[PENDING]
        child = nodes[first + side]
        if axis < 0:
            # Halves keep the bounds of the whole: they are rare, and no ray misses them for it.
            for k in range(3):
                child.lo[k], child.hi[k] = nodes[node].lo[k], nodes[node].hi[k]
            put(centers, top * LANES, load(centers, MAX_DEPTH * LANES))
        else:
            box, points = splat(INFINITY), splat(INFINITY)
            begin, end = (0, state[SPLIT] + 1) if side == 0 else (state[SPLIT] + 1, BINS)
            for b in range(axis * BINS + begin, axis * BINS + end):
                box = least(box, load(boxes, b * LANES))
                points = least(points, load(bin_centers, b * LANES))
            put(centers, top * LANES, points)
            child.lo[0], child.lo[1], child.lo[2] = first_three(box)
            x, y, z = first_three(swapped_halves(box))
            child.hi[0], child.hi[1], child.hi[2] = -x, -y, -z
        stack[top, 0] = first + side
        stack[top, 1] = state[BEGIN] if side == 0 else state[LEFT]
        stack[top, 2] = state[LEFT] if side == 0 else state[END]
        stack[top, 3] = state[DEPTH] + 1
        state[PENDING] += 1
    state[PHASE] = NEXT
