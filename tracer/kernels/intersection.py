"""Rays against triangles, through the hierarchy. Nothing else knows how it looks.

The triangle test is watertight: S. Woop, C. Benthin, I. Wald, "Watertight Ray/Triangle Intersection", JCGT
2(1), 2013. Two triangles compute the same edge function, negated, for an edge that they share, and zero
counts as inside for both, so that no ray passes between them. It works in float64 on float32 vertices. What
comes before it only leaves out what cannot be hit, so that hits do not depend on the hierarchy at all.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracer.kernels import device, inlined
from tracer.kernels.borrow import borrowed
from tracer.kernels.bvh_build import MAX_DEPTH
from tracer.kernels.layout import Bvh, as_int
from tracer.kernels.mathematics import Vec3
from tracer.kernels.simd import LANES, Float8, lane, local_array, lowest_bit
from tracer.kernels.wide import (
    Shear,
    candidates,
    enter_boxes,
    enter_scene,
    inverse_of,
    limit_of,
    shear_of,
    wide_ray,
)

MISS = -1
ANY_ID = 1 << 40
"""Larger than every triangle: a ray that starts at (t, ANY_ID) meets nothing at t itself."""
STACK = (LANES - 1) * MAX_DEPTH + LANES
"""A node leaves at most seven siblings behind on each level."""


class Hit(NamedTuple):
    """Where a ray meets a triangle first. b1, b2: barycentric weights of its second and third vertex."""

    triangle: int
    t: float
    b1: float
    b2: float


@inlined
def hit_triangle(bvh: Bvh, block: int, i: int, o: Vec3, s: Shear) -> Hit:
    """The ray's hit with triangle i of a block at any t, also negative; MISS where it passes by."""
    c = bvh.corners
    ox, oy, oz = o[s.kx], o[s.ky], o[s.kz]
    az, bz, cz = c[block, s.kz, i] - oz, c[block, 3 + s.kz, i] - oz, c[block, 6 + s.kz, i] - oz
    ax, ay = c[block, s.kx, i] - ox - s.sx * az, c[block, s.ky, i] - oy - s.sy * az
    bx, by = c[block, 3 + s.kx, i] - ox - s.sx * bz, c[block, 3 + s.ky, i] - oy - s.sy * bz
    cx, cy = c[block, 6 + s.kx, i] - ox - s.sx * cz, c[block, 6 + s.ky, i] - oy - s.sy * cz
    u = cx * by - cy * bx
    v = ax * cy - ay * cx
    w = bx * ay - by * ax
    if (u < 0.0 or v < 0.0 or w < 0.0) and (u > 0.0 or v > 0.0 or w > 0.0):
        return Hit(MISS, 0.0, 0.0, 0.0)
    det = u + v + w
    if not (det < 0.0 or det > 0.0):  # edge-on, or no triangle
        return Hit(MISS, 0.0, 0.0, 0.0)
    inverse = 1.0 / det
    t = (u * az + v * bz + w * cz) * s.sz * inverse
    return Hit(as_int(bvh.members[block, i]), t, v * inverse, w * inverse)


@inlined
def _push(mask: int, near: Float8, children: NDArray[np.int32], waiting: Any, nears: Any, top: int) -> int:
    """Puts the children of the mask on the stack (waiting, nears), the nearest on top; its new height."""
    base = top
    while mask != 0:
        i = lowest_bit(mask)
        mask &= mask - 1
        t, at = lane(near, i), top
        while at > base and nears[at - 1] < t:
            nears[at], waiting[at] = nears[at - 1], waiting[at - 1]
            at -= 1
        nears[at], waiting[at] = t, children[i]
        top += 1
    return top


@device
def closest_hit(bvh: Bvh, o: Vec3, d: Vec3, t_min: float, after: int, t_max: float) -> Hit:
    """The first hit beyond (t_min, after) and before t_max.

    Hits are ordered by t, equal ones by the triangle's number, so that a ray goes on from a hit that it is
    to pass without missing or repeating another one at the same place.
    """
    bvh = borrowed(bvh)
    best = Hit(MISS, t_max, 0.0, 0.0)
    inverse = inverse_of(d)
    start = enter_scene(bvh, o, inverse)
    if start > t_max or start == math.inf:
        return best
    shear = shear_of(d, inverse)
    ray = wide_ray(bvh, o, d, inverse, shear, start)
    limit = limit_of(ray, t_max)
    waiting, nears = local_array(np.int32, STACK), local_array(np.float32, STACK)
    waiting[0], nears[0] = np.int32(0), np.float32(0.0)
    top = 1
    while top > 0:
        top -= 1
        if nears[top] > limit:
            continue
        child = as_int(waiting[top])
        if child >= 0:
            mask, near = enter_boxes(bvh, child, d, ray, limit)
            top = _push(mask, near, bvh.children[child], waiting, nears, top)
            continue
        mask = candidates(bvh, ~child, shear, ray, limit)
        while mask != 0:
            hit = hit_triangle(bvh, ~child, lowest_bit(mask), o, shear)
            mask &= mask - 1
            if hit.triangle == MISS or hit.t < t_min or (hit.t == t_min and hit.triangle <= after):
                continue
            if hit.t < best.t or (hit.t == best.t and 0 <= hit.triangle < best.triangle):
                best = hit
                limit = limit_of(ray, hit.t)
    return best


@device
def occluded(bvh: Bvh, o: Vec3, d: Vec3, t_max: float) -> bool:
    """Whether anything is hit at 0 < t < t_max."""
    bvh = borrowed(bvh)
    inverse = inverse_of(d)
    start = enter_scene(bvh, o, inverse)
    if start > t_max or start == math.inf:
        return False
    shear = shear_of(d, inverse)
    ray = wide_ray(bvh, o, d, inverse, shear, start)
    limit = limit_of(ray, t_max)
    waiting = local_array(np.int32, STACK)
    waiting[0] = np.int32(0)
    top = 1
    while top > 0:
        top -= 1
        child = as_int(waiting[top])
        if child >= 0:
            mask, _ = enter_boxes(bvh, child, d, ray, limit)
            while mask != 0:
                waiting[top] = bvh.children[child, lowest_bit(mask)]
                mask &= mask - 1
                top += 1
            continue
        mask = candidates(bvh, ~child, shear, ray, limit)
        while mask != 0:
            hit = hit_triangle(bvh, ~child, lowest_bit(mask), o, shear)
            mask &= mask - 1
            if hit.triangle != MISS and 0.0 < hit.t < t_max:
                return True
    return False
