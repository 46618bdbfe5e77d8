"""Building the binary BVH: binned surface area heuristic, in steps of bounded work.

I. Wald, "On fast Construction of SAH-based Bounding Volume Hierarchies", 2007. One call of `build_step`
handles about `budget` triangles and comes back, so that whoever builds can beat while it works.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracer.kernels import device, entry, inlined
from tracer.kernels.layout import Records

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

INFINITY = np.float32(np.inf)
Float32 = NDArray[np.float32]


@entry
def triangle_bounds(
    positions: Float32, triangles: NDArray[np.int32], begin: int, end: int, out: Float32
) -> None:
    """out[begin:end] = (lo, hi) of each triangle; out is (t, 6)."""
    for t in range(begin, end):
        for axis in range(3):
            a = positions[triangles[t, 0], axis]
            b = positions[triangles[t, 1], axis]
            c = positions[triangles[t, 2], axis]
            out[t, axis] = min(a, b, c)
            out[t, axis + 3] = max(a, b, c)


@entry
def range_bounds(bounds: Float32, begin: int, end: int, box: Float32, centers: Float32) -> None:
    """Widens box and centers (6,) by the triangles begin..end: of their bounds, and of lo + hi."""
    for t in range(begin, end):
        _grow(box, centers, bounds, t)


@inlined
def _grow(box: Float32, centers: Float32, bounds: Float32, t: int) -> None:
    for axis in range(3):
        lo, hi = bounds[t, axis], bounds[t, axis + 3]
        box[axis] = min(box[axis], lo)
        box[axis + 3] = max(box[axis + 3], hi)
        centers[axis] = min(centers[axis], lo + hi)
        centers[axis + 3] = max(centers[axis + 3], lo + hi)


@inlined
def _bin(bounds: Float32, t: int, axis: int, centers: Float32) -> int:
    """The bin of a triangle along an axis; centers has extent there."""
    lo = centers[axis]
    position = (bounds[t, axis] + bounds[t, axis + 3] - lo) / (centers[axis + 3] - lo)
    return min(BINS - 1, int(position * np.float32(BINS)))


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

    bounds (t, 6) are kept in the same order as order: what is read together lies together.
    stack (MAX_DEPTH, 4): node, begin, end, depth of subtrees to build; centers (MAX_DEPTH + 1, 6) beside
    it, the last row for the node at work. counts (3, BINS), boxes and bin_centers (3, BINS, 6) are its bins.
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
                boxes[:, :, :3] = INFINITY
                boxes[:, :, 3:] = -INFINITY
                bin_centers[:, :, :3] = INFINITY
                bin_centers[:, :, 3:] = -INFINITY
                state[PHASE] = BINNING
                state[LEFT] = state[BEGIN]
        elif state[PHASE] == BINNING:
            begin = state[LEFT]
            end = min(state[END], begin + budget)
            for axis in range(3):
                if here[axis + 3] > here[axis]:
                    for i in range(begin, end):
                        b = _bin(bounds, i, axis, here)
                        counts[axis, b] += 1
                        _grow(boxes[axis, b], bin_centers[axis, b], bounds, i)
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
    centers[MAX_DEPTH] = centers[top]


@device
def _make_leaf(state: NDArray[np.int64], nodes: Records) -> None:
    nodes[state[NODE]].first = state[BEGIN]
    nodes[state[NODE]].count = state[END] - state[BEGIN]
    state[PHASE] = NEXT


@inlined
def _half_area(box: Float32) -> np.float32:
    x, y, z = box[3] - box[0], box[4] - box[1], box[5] - box[2]
    area: np.float32 = x * y + y * z + z * x
    return area


@inlined
def _leaves(count: int) -> np.float32:
    """Tests that so many triangles cost at least."""
    return np.float32((count + MAX_LEAF - 1) // MAX_LEAF)


@inlined
def _unite(box: Float32, other: Float32) -> None:
    for axis in range(3):
        box[axis] = min(box[axis], other[axis])
        box[axis + 3] = max(box[axis + 3], other[axis + 3])


@device
def _choose_split(
    state: NDArray[np.int64], here: Float32, counts: NDArray[np.int64], boxes: Float32, nodes: Records
) -> None:
    """Leaf, or the bin border with the least expected cost; AXIS is -1 where the node is to be halved."""
    total = state[END] - state[BEGIN]
    best, best_axis, best_split = INFINITY, -1, 0
    right_cost = np.empty(BINS, np.float32)
    box = np.empty(6, np.float32)
    whole = np.float32(0.0)
    for axis in range(3):
        if not here[axis + 3] > here[axis]:
            continue
        box[:3], box[3:] = INFINITY, -INFINITY
        count = 0
        for b in range(BINS - 1, 0, -1):
            _unite(box, boxes[axis, b])
            count += counts[axis, b]
            right_cost[b] = _half_area(box) * _leaves(count) if count > 0 else np.float32(0.0)
        box[:3], box[3:] = INFINITY, -INFINITY
        count = 0
        for b in range(BINS - 1):
            _unite(box, boxes[axis, b])
            count += counts[axis, b]
            if 0 < count < total:
                cost = _half_area(box) * _leaves(count) + right_cost[b + 1]
                if cost < best:
                    best, best_axis, best_split = cost, axis, b
        _unite(box, boxes[axis, BINS - 1])
        whole = _half_area(box)
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
    looked = 0
    while left < right and looked < budget:
        looked += 1
        if _bin(bounds, left, axis, here) <= state[SPLIT]:
            left += 1
        else:
            right -= 1
            order[left], order[right] = order[right], order[left]
            for k in range(6):
                bounds[left, k], bounds[right, k] = bounds[right, k], bounds[left, k]
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
    box = np.empty(6, np.float32)
    for side in range(2):
        top = state[PENDING]
        if axis < 0:
            # Halves keep the bounds of the whole: they are rare, and no ray misses them for it.
            for k in range(3):
                box[k], box[k + 3] = nodes[node].lo[k], nodes[node].hi[k]
            centers[top] = centers[MAX_DEPTH]
        else:
            box[:3], box[3:] = INFINITY, -INFINITY
            centers[top, :3], centers[top, 3:] = INFINITY, -INFINITY
            begin, end = (0, state[SPLIT] + 1) if side == 0 else (state[SPLIT] + 1, BINS)
            for b in range(begin, end):
                _unite(box, boxes[axis, b])
                _unite(centers[top], bin_centers[axis, b])
        for k in range(3):
            nodes[first + side].lo[k], nodes[first + side].hi[k] = box[k], box[k + 3]
        stack[top, 0] = first + side
        stack[top, 1] = state[BEGIN] if side == 0 else state[LEFT]
        stack[top, 2] = state[LEFT] if side == 0 else state[END]
        stack[top, 3] = state[DEPTH] + 1
        state[PENDING] += 1
    state[PHASE] = NEXT
