"""Polygons as triangles: OBJ and PLY have faces of any number of corners, concave ones too."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracer.errors import SceneUnsupported
from tracer.scene import Progress

MAX_CONCAVE = 2048
"""Corners of a concave polygon: cutting off its ears takes a time that rises with their square."""
CHUNK = 500_000
"""Faces between two calls of progress."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def triangulate(points: Floats, sizes: Integers, progress: Progress, where: str) -> Integers:
    """(m, 3) rows of points, in the order of the faces, and facing as they do.

    points (n, 3): the corners of all faces, one face after the other; sizes: corners of each, at least 3.
    Raises SceneUnsupported for a concave polygon of more than MAX_CONCAVE corners.
    """
    starts = np.cumsum(sizes) - sizes
    firsts = np.cumsum(sizes - 2) - (sizes - 2)
    triangles: Integers = np.empty((int((sizes - 2).sum()), 3), np.int64)
    for begin in range(0, len(sizes), CHUNK):
        progress(f"{where}: cutting faces into triangles, {begin} of {len(sizes)}")
        part = np.arange(begin, min(begin + CHUNK, len(sizes)))
        three, four = part[sizes[part] == 3], part[sizes[part] == 4]
        triangles[firsts[three]] = starts[three, None] + np.arange(3)
        _cut_quads(points, starts[four], firsts[four], triangles)
        for face in part[sizes[part] > 4].tolist():
            start, first, size = int(starts[face]), int(firsts[face]), int(sizes[face])
            cut = _cut_polygon(points[start : start + size], progress, where)
            triangles[first : first + size - 2] = start + cut
    return triangles


def _cut_quads(points: Floats, starts: Integers, firsts: Integers, triangles: Integers) -> None:
    """Along the diagonal 0-2, or along 1-3 where the other would leave a concave quad."""
    a, b, c, d = (points[starts + k] for k in range(4))
    normal = _cross(c - a, d - b)
    turned = (_dot(_cross(b - a, c - a), normal) < 0.0) | (_dot(_cross(c - a, d - a), normal) < 0.0)
    for half, (straight, other) in enumerate((((0, 1, 2), (0, 1, 3)), ((0, 2, 3), (1, 2, 3)))):
        corners = np.where(turned[:, None], np.array(other), np.array(straight))
        triangles[firsts + half] = starts[:, None] + corners


def _cut_polygon(points: Floats, progress: Progress, where: str) -> Integers:
    """(n - 2, 3) of one polygon: a fan where it is convex, else ear by ear."""
    count = len(points)
    flat = _flattened(points)
    before, after = np.roll(flat, 1, axis=0), np.roll(flat, -1, axis=0)
    if (_turn(before, flat, after) >= 0.0).all():
        middle = np.arange(1, count - 1)
        return np.stack([np.zeros_like(middle), middle, middle + 1], axis=1)
    if count > MAX_CONCAVE:
        raise SceneUnsupported(f"{where}: a concave face of {count} corners; at most {MAX_CONCAVE} are cut")
    return _cut_ears(flat, progress, where)


def _cut_ears(flat: Floats, progress: Progress, where: str) -> Integers:
    """Ear clipping of a counter-clockwise polygon (Meisters 1975). One that crosses itself has no ear at
    some point: then a corner is cut off all the same, so that it ends."""
    left = list(range(len(flat)))
    triangles = []
    at = tried = 0
    while len(left) > 3:
        if tried % 100 == 0:
            progress(f"{where}: cutting a face of {len(flat)} corners")
        at %= len(left)
        a, b, c = left[at - 1], left[at], left[(at + 1) % len(left)]
        if tried >= len(left) or _is_ear(flat, left, a, b, c):
            triangles.append((a, b, c))
            del left[at]
            tried = 0
        else:
            at += 1
            tried += 1
    return np.array([*triangles, tuple(left)], np.int64)


def _is_ear(flat: Floats, left: list[int], a: int, b: int, c: int) -> bool:
    """Whether the corner b is convex and no other corner lies in the triangle that it would cut off."""
    p, q, r = flat[a], flat[b], flat[c]
    if not _turn(p, q, r) > 0.0:
        return False
    others = flat[left]
    inside = (_turn(p, q, others) >= 0.0) & (_turn(q, r, others) >= 0.0) & (_turn(r, p, others) >= 0.0)
    for corner in (p, q, r):  # also where another corner lies at the same place
        inside &= (others != corner).any(axis=1)
    return not bool(inside.any())


def _flattened(points: Floats) -> Floats:
    """(n, 2): seen along the largest component of the normal, counter-clockwise (Newell's normal)."""
    p = points - points[0]
    # cumsum adds one after the other, whatever the processor.
    x, y, z = np.cumsum(_cross(p, np.roll(p, -1, axis=0)), axis=0)[-1].tolist()
    axis = max(range(3), key=lambda k: abs((x, y, z)[k]))
    kept = [(1, 2), (2, 0), (0, 1)][axis]
    flat: Floats = p[:, kept if (x, y, z)[axis] >= 0.0 else kept[::-1]]
    return flat


def _turn(a: Floats, b: Floats, c: Floats) -> Floats:
    """Twice the signed area of a, b, c; above 0 where they turn left."""
    ab, ac = b - a, c - a
    area: Floats = ab[..., 0] * ac[..., 1] - ab[..., 1] * ac[..., 0]
    return area


def _cross(a: Floats, b: Floats) -> Floats:
    (ax, ay, az), (bx, by, bz) = a.T, b.T
    return np.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], axis=1)


def _dot(a: Floats, b: Floats) -> Floats:
    product: Floats = a[:, 0] * b[:, 0] + a[:, 1] * b[:, 1] + a[:, 2] * b[:, 2]
    return product
