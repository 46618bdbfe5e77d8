"""Rays against triangles, through the BVH. Nothing else knows how the hierarchy looks.

The triangle test is watertight: S. Woop, C. Benthin, I. Wald, "Watertight Ray/Triangle Intersection", JCGT
2(1), 2013. Two triangles compute the same edge function, negated, for an edge that they share, and zero
counts as inside for both, so that no ray passes between them. It works in float64 on float32 vertices.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tracer.kernels import device, inlined
from tracer.kernels.borrow import borrowed
from tracer.kernels.bvh_build import MAX_DEPTH
from tracer.kernels.layout import Geometry, as_int
from tracer.kernels.mathematics import Vec3

MISS = -1
ANY_ID = 1 << 40
"""Larger than every triangle: a ray that starts at (t, ANY_ID) meets nothing at t itself."""
SLACK = 1.0 + 4e-15
"""Widens a box's exit by more than the rounding of the slab test (T. Ize, JCGT 2(2), 2013)."""


class Hit(NamedTuple):
    """Where a ray meets a triangle first. b1, b2: barycentric weights of its second and third vertex."""

    triangle: int
    t: float
    b1: float
    b2: float


class Shear(NamedTuple):
    """A ray as the triangle test wants it: axes permuted so that it runs along the last, then sheared."""

    kx: int
    ky: int
    kz: int
    sx: float
    sy: float
    sz: float


@inlined
def shear_of(d: Vec3) -> Shear:
    ax, ay, az = abs(d[0]), abs(d[1]), abs(d[2])
    kz = 0 if ax > ay and ax > az else (1 if ay > az else 2)
    kx = (kz + 1) % 3
    ky = (kx + 1) % 3
    if d[kz] < 0.0:  # keeps the winding
        kx, ky = ky, kx
    return Shear(kx, ky, kz, d[kx] / d[kz], d[ky] / d[kz], 1.0 / d[kz])


@inlined
def hit_triangle(geometry: Geometry, triangle: int, o: Vec3, s: Shear) -> Hit:
    """The ray's hit with one triangle at any t, also negative; MISS where it passes by."""
    i0, i1, i2 = (
        geometry.triangles[triangle, 0],
        geometry.triangles[triangle, 1],
        geometry.triangles[triangle, 2],
    )
    p = geometry.positions
    ox, oy, oz = o[s.kx], o[s.ky], o[s.kz]
    az, bz, cz = p[i0, s.kz] - oz, p[i1, s.kz] - oz, p[i2, s.kz] - oz
    ax, ay = p[i0, s.kx] - ox - s.sx * az, p[i0, s.ky] - oy - s.sy * az
    bx, by = p[i1, s.kx] - ox - s.sx * bz, p[i1, s.ky] - oy - s.sy * bz
    cx, cy = p[i2, s.kx] - ox - s.sx * cz, p[i2, s.ky] - oy - s.sy * cz
    u = cx * by - cy * bx
    v = ax * cy - ay * cx
    w = bx * ay - by * ax
    if (u < 0.0 or v < 0.0 or w < 0.0) and (u > 0.0 or v > 0.0 or w > 0.0):
        return Hit(MISS, 0.0, 0.0, 0.0)
    det = u + v + w
    if det == 0.0:  # edge-on, or no area
        return Hit(MISS, 0.0, 0.0, 0.0)
    inverse = 1.0 / det
    t = (u * az + v * bz + w * cz) * s.sz * inverse
    return Hit(triangle, t, v * inverse, w * inverse)


@inlined
def inverse_of(d: Vec3) -> Vec3:
    """1/d, and something huge for 0: an infinity would make NaN of a ray that runs in a box's face."""
    x = math.copysign(max(abs(d[0]), 1e-150), d[0])
    y = math.copysign(max(abs(d[1]), 1e-150), d[1])
    z = math.copysign(max(abs(d[2]), 1e-150), d[2])
    return (1.0 / x, 1.0 / y, 1.0 / z)


@inlined
def enter_box(geometry: Geometry, node: int, o: Vec3, inv: Vec3, t_max: float) -> float:
    """Where the ray enters the node's box, at least 0; infinity where it misses it before t_max."""
    box = geometry.nodes[node]
    t0, t1 = (box.lo[0] - o[0]) * inv[0], (box.hi[0] - o[0]) * inv[0]
    near, far = min(t0, t1), max(t0, t1)
    t0, t1 = (box.lo[1] - o[1]) * inv[1], (box.hi[1] - o[1]) * inv[1]
    near, far = max(near, min(t0, t1)), min(far, max(t0, t1))
    t0, t1 = (box.lo[2] - o[2]) * inv[2], (box.hi[2] - o[2]) * inv[2]
    near, far = max(near, min(t0, t1)), min(far, max(t0, t1))
    near = max(near, 0.0)
    if near <= min(far * SLACK, t_max):
        return near
    return math.inf


@device
def closest_hit(geometry: Geometry, o: Vec3, d: Vec3, t_min: float, after: int, t_max: float) -> Hit:
    """The first hit beyond (t_min, after) and before t_max.

    Hits are ordered by t, equal ones by the triangle's number, so that a ray goes on from a hit that it is
    to pass without missing or repeating another one at the same place. The order of nodes plays no part.
    """
    geometry = borrowed(geometry)
    shear, inv = shear_of(d), inverse_of(d)
    best = Hit(MISS, t_max, 0.0, 0.0)
    stack = np.empty(MAX_DEPTH, np.int32)
    entered = np.empty(MAX_DEPTH, np.float64)
    pending, node = 0, 0
    if enter_box(geometry, 0, o, inv, t_max) == math.inf:
        return best
    while True:
        first, count = geometry.nodes[node].first, geometry.nodes[node].count
        if count > 0:
            for i in range(first, first + count):
                hit = hit_triangle(geometry, as_int(geometry.order[i]), o, shear)
                if hit.triangle == MISS or hit.t < t_min or (hit.t == t_min and hit.triangle <= after):
                    continue
                if hit.t < best.t or (hit.t == best.t and 0 <= hit.triangle < best.triangle):
                    best = hit
        else:
            near = enter_box(geometry, first, o, inv, best.t)
            other = enter_box(geometry, first + 1, o, inv, best.t)
            child = first
            if other < near:
                near, other, child = other, near, first + 1
            if near != math.inf:
                if other != math.inf:
                    stack[pending] = first + 1 if child == first else first
                    entered[pending] = other
                    pending += 1
                node = child
                continue
        while pending > 0 and entered[pending - 1] > best.t:
            pending -= 1
        if pending == 0:
            return best
        pending -= 1
        node = stack[pending]


@device
def occluded(geometry: Geometry, o: Vec3, d: Vec3, t_max: float) -> bool:
    """Whether anything is hit at 0 < t < t_max."""
    geometry = borrowed(geometry)
    shear, inv = shear_of(d), inverse_of(d)
    stack = np.empty(MAX_DEPTH, np.int32)
    stack[0] = 0
    pending = 1
    while pending > 0:
        pending -= 1
        node = stack[pending]
        if enter_box(geometry, node, o, inv, t_max) == math.inf:
            continue
        first, count = geometry.nodes[node].first, geometry.nodes[node].count
        for i in range(first, first + count):
            hit = hit_triangle(geometry, as_int(geometry.order[i]), o, shear)
            if hit.triangle != MISS and 0.0 < hit.t < t_max:
                return True
        if count == 0:
            stack[pending], stack[pending + 1] = first, first + 1
            pending += 2
    return False
