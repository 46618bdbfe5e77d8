"""From the binary hierarchy to the one that rays use: nodes of eight boxes, leaves of eight triangles.

A child is a node's number, or ~block for a leaf. Both kinds are kept as structures of arrays, so that eight
boxes or eight triangles are loaded at once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracer.kernels import device, entry, inlined
from tracer.kernels.layout import Record, Records
from tracer.kernels.simd import LANES

NODES, BLOCKS, PENDING = range(3)
"""state: how many nodes and blocks there are, and how many subtrees wait."""

Float32 = NDArray[np.float32]
Int32 = NDArray[np.int32]


@entry
def collapse_step(
    state: NDArray[np.int64],
    stack: NDArray[np.int64],
    binary: Records,
    costs: Float32,
    order: Int32,
    positions: Float32,
    triangles: Int32,
    margin: np.float32,
    boxes: Float32,
    children: Int32,
    corners: Float32,
    members: Int32,
    budget: int,
) -> bool:
    """Makes at most budget nodes; True when all are made.

    stack (n, 2): a binary node and the number of the wide node to make of it. boxes (n, 6, LANES): lo and
    hi, widened by margin; children (n, LANES). corners (m, 9, LANES): the vertices' coordinates, row 3 c + k
    the k-th of corner c, NaN where there is no triangle; members (m, LANES): the triangles' numbers.
    """
    gathered = np.empty(LANES, np.int64)
    while state[PENDING] > 0 and budget > 0:
        budget -= 1
        state[PENDING] -= 1
        root, node = stack[state[PENDING], 0], stack[state[PENDING], 1]
        count = _gather(binary, costs, root, gathered)
        for lane in range(LANES):
            if lane >= count:
                boxes[node, :3, lane], boxes[node, 3:, lane] = np.inf, -np.inf
                children[node, lane] = 0
                continue
            child = binary[gathered[lane]]
            for axis in range(3):
                boxes[node, axis, lane] = child.lo[axis] - margin
                boxes[node, axis + 3, lane] = child.hi[axis] + margin
            if child.count > 0:
                block = state[BLOCKS]
                state[BLOCKS] += 1
                _fill(child, order, positions, triangles, corners[block], members[block])
                children[node, lane] = ~block
            else:
                children[node, lane] = state[NODES]
                stack[state[PENDING], 0], stack[state[PENDING], 1] = gathered[lane], state[NODES]
                state[NODES] += 1
                state[PENDING] += 1
    return bool(state[PENDING] == 0)


@entry
def collapse_costs(binary: Records, begin: int, end: int, costs: Float32) -> None:
    """costs (n, LANES) of the binary nodes begin..end; those of their children must be known.

    costs[i, k - 1]: the least summed area of wide nodes, with which up to k places of a wide node can stand
    for node i. Leaves cost the same wherever they are. After H. Ylitie, T. Karras, S. Laine, "Efficient
    Incoherent Ray Traversal on GPUs Through Compressed Wide BVHs", 2017.
    """
    for i in range(end - 1, begin - 1, -1):
        if binary[i].count > 0:
            costs[i, :] = np.float32(0.0)
            continue
        for places in range(2, LANES + 1):
            left = _best_left(costs, binary[i].first, places)
            costs[i, places - 1] = _divided(costs, binary[i].first, left, places)
        costs[i, 0] = costs[i, LANES - 1] + _half_area(binary[i])
        for places in range(2, LANES + 1):
            costs[i, places - 1] = min(costs[i, places - 1], costs[i, places - 2])


@inlined
def _divided(costs: Float32, first: int, left: int, places: int) -> np.float32:
    cost: np.float32 = costs[first, left - 1] + costs[first + 1, places - left - 1]
    return cost


@inlined
def _best_left(costs: Float32, first: int, places: int) -> int:
    """How many of the places the first of two siblings gets."""
    best, cost = 1, _divided(costs, first, 1, places)
    for left in range(2, places):
        other = _divided(costs, first, left, places)
        if other < cost:
            best, cost = left, other
    return best


@device
def _gather(binary: Records, costs: Float32, root: int, gathered: NDArray[np.int64]) -> int:
    """The up to eight subtrees that stand for root, as costs has it; how many there are."""
    places = np.empty(LANES, np.int64)
    gathered[0], places[0] = root, LANES
    count, at = 1, 0
    while at < count:
        node, k = gathered[at], places[at]
        closed = k == 1 or (node != root and not costs[node, k - 1] < costs[node, 0])
        if closed or binary[node].count > 0:
            at += 1
            continue
        first = binary[node].first
        left = _best_left(costs, first, k)
        gathered[at], places[at] = first, left
        gathered[count], places[count] = first + 1, k - left
        count += 1
    return count


@inlined
def _half_area(node: Record) -> np.float32:
    x, y, z = node.hi[0] - node.lo[0], node.hi[1] - node.lo[1], node.hi[2] - node.lo[2]
    area: np.float32 = x * y + y * z + z * x
    return area


@device
def _fill(
    leaf: Record, order: Int32, positions: Float32, triangles: Int32, corners: Float32, members: Int32
) -> None:
    corners[:] = np.nan
    members[:] = 0
    for lane in range(leaf.count):
        triangle = order[leaf.first + lane]
        members[lane] = triangle
        for corner in range(3):
            for axis in range(3):
                corners[3 * corner + axis, lane] = positions[triangles[triangle, corner], axis]
