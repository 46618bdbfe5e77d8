"""Eight boxes or eight triangles at once, in float32: which of them a ray may hit.

Everything here errs on one side. It has bounds on its rounding and may say yes to a near miss, never no to
a hit; who asks then tests exactly.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tracer.kernels import inlined
from tracer.kernels.layout import Bvh
from tracer.kernels.mathematics import Vec3
from tracer.kernels.simd import LANES, Float8, absolute, at_most, load, maximum, minimum, splat

WIDER = 1.0 + 2.0**-20
"""Covers the rounding of a distance to float32, and of comparing it."""
ROUNDING = 2.0**-20
"""Error of a coordinate that is moved to the ray's start and sheared, relative to the largest coordinate of
all: seven roundings to float32, each of at most 2^-24 of one, two or four times that."""
HUGE = 1e30
HIGHER = 3 * LANES
"""From the lower sides of a node's boxes to the higher ones."""

Wide3 = tuple[Float8, Float8, Float8]


class Shear(NamedTuple):
    """A ray as the triangle test wants it: axes permuted so that it runs along the last, then sheared."""

    kx: int
    ky: int
    kz: int
    sx: float
    sy: float
    sz: float


class WideRay(NamedTuple):
    """A ray in every lane. It begins at `start`, where it enters the scene: seen from far away float32 would
    have no digits left for the scene itself. o and inverse by axis; sheared_o and shear as Shear has them.
    near: where in a node's boxes the sides are that it passes first, 0 for the lower ones."""

    start: float
    near: tuple[int, int, int]
    o: Wide3
    inverse: Wide3
    sheared_o: Wide3
    shear: Wide3
    error: float
    error_t: float


@inlined
def inverse_of(d: Vec3) -> Vec3:
    """1/d, and something huge for 0: an infinity would make NaN of a ray that runs in a box's face."""
    return (_inverse(d[0]), _inverse(d[1]), _inverse(d[2]))


@inlined
def _inverse(x: float) -> float:
    return 1.0 / math.copysign(max(abs(x), 1.0 / HUGE), x)


@inlined
def shear_of(d: Vec3, inverse: Vec3) -> Shear:
    ax, ay, az = abs(d[0]), abs(d[1]), abs(d[2])
    kz = 0 if ax > ay and ax > az else (1 if ay > az else 2)
    kx = (kz + 1) % 3
    ky = (kx + 1) % 3
    if d[kz] < 0.0:  # keeps the winding
        kx, ky = ky, kx
    return Shear(kx, ky, kz, d[kx] * inverse[kz], d[ky] * inverse[kz], inverse[kz])


@inlined
def _contains(bvh: Bvh, o: Vec3) -> bool:
    b = bvh.bounds
    x, y, z = o
    return bool(b[0] <= x <= b[3] and b[1] <= y <= b[4] and b[2] <= z <= b[5])


@inlined
def enter_scene(bvh: Bvh, o: Vec3, inverse: Vec3) -> float:
    """Where the ray enters the bounds of everything, at least 0; infinity where it misses them."""
    if _contains(bvh, o):
        return 0.0
    near, far = 0.0, math.inf
    for axis in range(3):
        t0, t1 = (
            (bvh.bounds[axis] - o[axis]) * inverse[axis],
            (bvh.bounds[axis + 3] - o[axis]) * inverse[axis],
        )
        near, far = max(near, min(t0, t1)), min(far, max(t0, t1))
    return near if near <= far else math.inf


@inlined
def wide(x: float) -> Float8:
    return splat(np.float32(x))


@inlined
def wide_ray(bvh: Bvh, o: Vec3, d: Vec3, inverse: Vec3, s: Shear, start: float) -> WideRay:
    p = (o[0] + start * d[0], o[1] + start * d[1], o[2] + start * d[2])
    error = ROUNDING * bvh.bounds[6]
    return WideRay(
        start,
        (_first_side(d[0]), _first_side(d[1]), _first_side(d[2])),
        (wide(p[0]), wide(p[1]), wide(p[2])),
        (wide(inverse[0]), wide(inverse[1]), wide(inverse[2])),
        (wide(p[s.kx]), wide(p[s.ky]), wide(p[s.kz])),
        (wide(s.sx), wide(s.sy), wide(s.sz)),
        error,
        4.0 * error * abs(s.sz),
    )


@inlined
def limit_of(ray: WideRay, t: float) -> np.float32:
    """The distance t from the ray's own start, or a hair more."""
    return np.float32((t - ray.start) * WIDER)


@inlined
def _first_side(x: float) -> int:
    """Also of -0.0, whose inverse is negative."""
    return HIGHER if math.copysign(1.0, x) < 0.0 else 0


@inlined
def enter_boxes(bvh: Bvh, node: int, ray: WideRay, limit: np.float32) -> tuple[int, Float8]:
    """The mask of the node's boxes that the ray enters before limit, and where it enters each.

    Boxes were widened by more than the error of all this when they were built.
    """
    x, y, z = node * (6 * LANES), node * (6 * LANES) + LANES, node * (6 * LANES) + 2 * LANES
    near_x = (load(bvh.boxes, x + ray.near[0]) - ray.o[0]) * ray.inverse[0]
    near_y = (load(bvh.boxes, y + ray.near[1]) - ray.o[1]) * ray.inverse[1]
    near_z = (load(bvh.boxes, z + ray.near[2]) - ray.o[2]) * ray.inverse[2]
    far_x = (load(bvh.boxes, x + (HIGHER - ray.near[0])) - ray.o[0]) * ray.inverse[0]
    far_y = (load(bvh.boxes, y + (HIGHER - ray.near[1])) - ray.o[1]) * ray.inverse[1]
    far_z = (load(bvh.boxes, z + (HIGHER - ray.near[2])) - ray.o[2]) * ray.inverse[2]
    near = maximum(maximum(near_x, near_y), maximum(near_z, wide(0.0)))
    far = minimum(minimum(far_x, far_y), minimum(far_z, splat(limit)))
    return at_most(near, far), near


@inlined
def candidates(bvh: Bvh, block: int, s: Shear, ray: WideRay, limit: np.float32) -> int:
    """The mask of the block's triangles that the ray may hit between its start and limit."""
    c, first = bvh.corners, block * (9 * LANES)
    x, y, z = first + s.kx * LANES, first + s.ky * LANES, first + s.kz * LANES
    b, e = 3 * LANES, 6 * LANES  # from the first corner to the second and the third
    (ox, oy, oz), (sx, sy, sz) = ray.sheared_o, ray.shear
    az, bz, cz = load(c, z) - oz, load(c, z + b) - oz, load(c, z + e) - oz
    ax, ay = load(c, x) - ox - sx * az, load(c, y) - oy - sy * az
    bx, by = load(c, x + b) - ox - sx * bz, load(c, y + b) - oy - sy * bz
    cx, cy = load(c, x + e) - ox - sx * cz, load(c, y + e) - oy - sy * cz
    u, v, w = cx * by - cy * bx, ax * cy - ay * cx, bx * ay - by * ax
    # A coordinate is off by at most the error, so an edge function by at most 4 size error + 2 error^2, and
    # its own rounding is less than half of that.
    size = maximum(_size(ax, ay), maximum(_size(bx, by), _size(cx, cy)))
    slack = size * wide(8.0 * ray.error) + wide(4.0 * ray.error * ray.error)
    least, most = minimum(u, minimum(v, w)), maximum(u, maximum(v, w))
    inside = at_most(wide(0.0) - slack, least) | at_most(most, slack)
    if inside == 0:
        return 0
    # The hit is at t = along / det, a mean of where the corners are along the ray; wanted from 0 to limit.
    at, bt, ct = az * sz, bz * sz, cz * sz
    along, det = u * at + v * bt + w * ct, u + v + w
    edge = maximum(most, wide(0.0) - least)
    farthest = maximum(absolute(at), maximum(absolute(bt), absolute(ct))) + wide(ray.error_t)
    reach = minimum(splat(limit), farthest) * det
    # Each product is off by edge error_t + slack farthest, det by 3 slack; and all are rounded.
    doubt = edge * (wide(3.0 * ray.error_t) + farthest * wide(ROUNDING * 2.0)) + slack * farthest * wide(6.0)
    behind = at_most(along, minimum(reach, wide(0.0)) - doubt)
    beyond = at_most(maximum(reach, wide(0.0)) + doubt, along)
    return inside & ~(behind | beyond)


@inlined
def _size(x: Float8, y: Float8) -> Float8:
    return maximum(absolute(x), absolute(y))
