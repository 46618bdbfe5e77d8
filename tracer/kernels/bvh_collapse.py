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
        count = _gather(binary, root, gathered)
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


@device
def _gather(binary: Records, root: int, gathered: NDArray[np.int64]) -> int:
    """The up to eight subtrees that stand for root: the largest is opened until there are enough."""
    gathered[0] = root
    count = 1
    while count < LANES:
        largest, area = -1, np.float32(-1.0)
        for i in range(count):
            node = binary[gathered[i]]
            if node.count == 0 and _half_area(node) > area:
                largest, area = i, _half_area(node)
        if largest < 0:
            break
        first = binary[gathered[largest]].first
        gathered[largest], gathered[count] = first, first + 1
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
