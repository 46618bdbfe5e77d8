"""Surfaces for make_scenes.py, as arrays of points and triangles."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Vec3 = tuple[float, float, float]


class Shape(NamedTuple):
    """positions, normals (n, 3), uv (n, 2) and triangles (m, 3); front faces are counter-clockwise."""

    positions: Array
    normals: Array
    uv: Array
    triangles: Array


def grid(point: Callable[[float, float], tuple[Vec3, Vec3]], columns: int, rows: int) -> Shape:
    """A surface from point(u, v) -> (position, normal), with u to the right and v down as seen outside."""
    steps = [(i / columns, j / rows) for j in range(rows + 1) for i in range(columns + 1)]
    both = np.array([point(u, v) for u, v in steps])
    corner = np.array([j * (columns + 1) + i for j in range(rows) for i in range(columns)])
    below = corner + columns + 1
    halves = [np.stack([corner, below, below + 1], 1), np.stack([corner, below + 1, corner + 1], 1)]
    triangles = np.stack(halves, 1).reshape(-1, 3)
    p = both[:, 0][triangles]  # the poles of a sphere are points: half of their quads has no area
    area = np.linalg.norm(np.cross(p[:, 1] - p[:, 0], p[:, 2] - p[:, 0]), axis=1)
    return Shape(both[:, 0], both[:, 1], np.array(steps), triangles[area > 1e-9])


def quad(a: Vec3, b: Vec3, d: Vec3, repeat: float = 1.0) -> Shape:
    """A parallelogram: corner a, its neighbours b and d; the front sees a, b, d counter-clockwise."""
    ab, ad = np.subtract(b, a), np.subtract(d, a)
    n = np.cross(ab, ad)
    corners = np.array([a, b, b + ad, d])
    uv = np.array([[0, repeat], [repeat, repeat], [repeat, 0], [0, 0]])
    return Shape(corners, np.tile(n / np.linalg.norm(n), (4, 1)), uv, np.array([[0, 1, 2], [0, 2, 3]]))


def joined(shapes: Sequence[Shape]) -> Shape:
    starts = np.cumsum([0, *(len(s.positions) for s in shapes)])
    triangles = [s.triangles + start for s, start in zip(shapes, starts[:-1], strict=True)]
    return Shape(
        np.concatenate([s.positions for s in shapes]),
        np.concatenate([s.normals for s in shapes]),
        np.concatenate([s.uv for s in shapes]),
        np.concatenate(triangles),
    )


def sphere(columns: int = 40, rows: int = 24) -> Shape:
    def point(u: float, v: float) -> tuple[Vec3, Vec3]:
        around, down = 2.0 * math.pi * u, math.pi * v
        n = (math.sin(down) * math.sin(around), math.cos(down), math.sin(down) * math.cos(around))
        return n, n

    return grid(point, columns, rows)


def torus(thickness: float, columns: int = 64, rows: int = 24) -> Shape:
    """Around +Y, of radius 1."""

    def point(u: float, v: float) -> tuple[Vec3, Vec3]:
        around, down = 2.0 * math.pi * u, 2.0 * math.pi * v
        out, up = math.sin(down), math.cos(down)
        r = 1.0 + thickness * out
        n = (out * math.sin(around), up, out * math.cos(around))
        return (r * math.sin(around), thickness * up, r * math.cos(around)), n

    return grid(point, columns, rows)


def lathe(profile: Sequence[tuple[float, float]], columns: int = 56, rows: int = 40) -> Shape:
    """(radius, height) points from the top down, joined by a smooth curve (Catmull-Rom), turned about +Y."""
    p = np.array([profile[0], *profile, profile[-1]], float)

    def curve(v: float) -> tuple[Array, Array]:
        at = min(v * (len(profile) - 1), len(profile) - 1 - 1e-9)
        i, t = int(at), at - int(at)
        a, b, c, d = p[i : i + 4]
        k = (c - a, 2.0 * a - 5.0 * b + 4.0 * c - d, 3.0 * b - a - 3.0 * c + d)
        place = b + 0.5 * t * (k[0] + t * (k[1] + t * k[2]))
        return place, k[0] + t * (2.0 * k[1] + t * 3.0 * k[2])

    def point(u: float, v: float) -> tuple[Vec3, Vec3]:
        (r, y), (dr, dy) = curve(v)
        s, c = math.sin(2.0 * math.pi * u), math.cos(2.0 * math.pi * u)
        length = math.hypot(dr, dy)
        out, up = -dy / length, dr / length
        return (max(r, 0.0) * s, y, max(r, 0.0) * c), (out * s, up, out * c)

    return grid(point, columns, rows)


def box(center: Vec3, half: Vec3, turn_degrees: float) -> Shape:
    """Five sides: the one it stands on is not seen."""
    s, c = math.sin(math.radians(turn_degrees)), math.cos(math.radians(turn_degrees))

    def at(x: float, y: float, z: float) -> Vec3:
        x, y, z = x * half[0], y * half[1], z * half[2]
        return (center[0] + c * x + s * z, center[1] + y, center[2] - s * x + c * z)

    corners = [((-1, 1), (1, 1)), ((1, 1), (1, -1)), ((1, -1), (-1, -1)), ((-1, -1), (-1, 1))]
    sides = [quad(at(a, -1, b), at(e, -1, f), at(a, 1, b)) for (a, b), (e, f) in corners]
    return joined([*sides, quad(at(-1, 1, 1), at(1, 1, 1), at(-1, 1, -1))])
