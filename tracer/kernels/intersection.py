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

from tracer.kernels import device, inlined
from tracer.kernels.borrow import borrowed
from tracer.kernels.bvh_build import MAX_DEPTH
from tracer.kernels.layout import Bvh, as_int
from tracer.kernels.mathematics import Vec3
from tracer.kernels.simd import LANES, flat, local_array, lowest_bit, store
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
    c, first = bvh.corners, block * (9 * LANES) + i
    x, y, z = first + s.kx * LANES, first + s.ky * LANES, first + s.kz * LANES
    b, e = 3 * LANES, 6 * LANES  # from the first corner to the second and the third
    ox, oy, oz = o[s.kx], o[s.ky], o[s.kz]
    az, bz, cz = flat(c, z) - oz, flat(c, z + b) - oz, flat(c, z + e) - oz
    ax, ay = flat(c, x) - ox - s.sx * az, flat(c, y) - oy - s.sy * az
    bx, by = flat(c, x + b) - ox - s.sx * bz, flat(c, y + b) - oy - s.sy * bz
    cx, cy = flat(c, x + e) - ox - s.sx * cz, flat(c, y + e) - oy - s.sy * cz
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
    return Hit(as_int(flat(bvh.members, block * LANES + i)), t, v * inverse, w * inverse)


@inlined
def _push(bvh: Bvh, node: int, mask: int, near: Any, waiting: Any, nears: Any, top: int) -> int:
    """Puts the node's children of the mask on the stack (waiting, nears), nearest on top; its new height."""
    base = top
    while mask != 0:
        i = lowest_bit(mask)
        mask &= mask - 1
        t, at = near[i], top
        while at > base and nears[at - 1] < t:
            nears[at], waiting[at] = nears[at - 1], waiting[at - 1]
            at -= 1
        nears[at], waiting[at] = t, flat(bvh.children, node * LANES + i)
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
    entered = local_array(np.float32, LANES)
    top, child = 0, 0
    while True:
        if child >= 0:
            mask, near = enter_boxes(bvh, child, ray, limit)
            if mask != 0:
                # Straight on to the nearest; most nodes have only one child that the ray enters.
                if mask & (mask - 1) == 0:
                    child = as_int(flat(bvh.children, child * LANES + lowest_bit(mask)))
                    continue
                store(entered, near)
                top = _push(bvh, child, mask, entered, waiting, nears, top) - 1
                child = as_int(waiting[top])
                continue
        else:
            mask = candidates(bvh, ~child, shear, ray, limit)
            while mask != 0:
                hit = hit_triangle(bvh, ~child, lowest_bit(mask), o, shear)
                mask &= mask - 1
                if hit.triangle == MISS or hit.t < t_min or (hit.t == t_min and hit.triangle <= after):
                    continue
                if hit.t < best.t or (hit.t == best.t and 0 <= hit.triangle < best.triangle):
                    best = hit
                    limit = limit_of(ray, hit.t)
        while top > 0 and nears[top - 1] > limit:
            top -= 1
        if top == 0:
            return best
        top -= 1
        child = as_int(waiting[top])


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
            mask, _ = enter_boxes(bvh, child, ray, limit)
            while mask != 0:
                waiting[top] = flat(bvh.children, child * LANES + lowest_bit(mask))
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
