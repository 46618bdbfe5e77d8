"""Triangles of polygons cover the polygon: nothing twice, nothing left out, nothing turned round."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tracer.loaders.polygons import triangulate

Floats = NDArray[np.float64]


def silent(step: str) -> None:
    pass


def area_vectors(points: Floats, triangles: NDArray[np.int64]) -> Floats:
    a, b, c = (points[triangles[:, k]] for k in range(3))
    vectors: Floats = np.cross(b - a, c - a) / 2
    return vectors


def polygon_area(points: Floats) -> Floats:
    total: Floats = np.cross(points, np.roll(points, -1, axis=0)).sum(axis=0) / 2
    return total


@given(
    st.lists(st.floats(0.2, 3.0), min_size=3, max_size=24),
    st.lists(st.floats(-1, 1), min_size=3, max_size=3).filter(lambda n: sum(x * x for x in n) > 0.01),
    st.integers(0, 23),
)
def test_star_shaped_polygons_are_covered_once(radii: list[float], normal: list[float], first: int) -> None:
    """In any plane, beginning anywhere; a star-shaped polygon may be concave at most of its corners."""
    n = np.array(normal) / np.linalg.norm(normal)
    u = np.cross(n, (1, 0, 0) if abs(n[0]) < 0.9 else (0, 1, 0))
    u /= np.linalg.norm(u)
    angles = [2 * math.pi * i / len(radii) for i in range(len(radii))]
    flat = np.array([(r * math.cos(a), r * math.sin(a)) for r, a in zip(radii, angles, strict=True)])
    points = np.roll(flat[:, :1] * u + flat[:, 1:] * np.cross(n, u) + (5, 6, 7), first, axis=0)
    triangles = triangulate(points, np.array([len(points)]), silent, "f")
    assert len(triangles) == len(points) - 2
    assert set(triangles.reshape(-1).tolist()) == set(range(len(points)))
    areas = area_vectors(points, triangles) @ n
    assert (areas >= -1e-9).all()
    assert areas.sum() == pytest.approx(polygon_area(points) @ n)


def test_a_comb_is_covered_once() -> None:
    teeth = [(x, y) for i in range(40) for x, y in ((i, 0 if i % 2 else 5), (i + 0.9, 0 if i % 2 else 5))]
    points = np.array([(x, y, 0.0) for x, y in [(0, -1), (41, -1), *reversed(teeth)]])
    triangles = triangulate(points, np.array([len(points)]), silent, "f")
    areas = area_vectors(points, triangles)[:, 2]
    assert (areas > 0).all()
    assert areas.sum() == pytest.approx(polygon_area(points)[2])


@pytest.mark.parametrize("turn", range(4))
def test_a_concave_quad_is_cut_where_it_is_concave(turn: int) -> None:
    points = np.roll(np.array([(0, 0, 0), (2, 0, 0), (0.5, 0.5, 0), (0, 2, 0)], float), turn, axis=0)
    areas = area_vectors(points, triangulate(points, np.array([4]), silent, "f"))[:, 2]
    assert (areas > 0).all()


def test_faces_of_different_sizes_keep_their_order() -> None:
    ring = [(math.cos(2 * math.pi * i / 5), math.sin(2 * math.pi * i / 5), 0.0) for i in range(5)]
    points = np.array([*ring, *ring[:3], *ring[:4], *ring[:3]])
    triangles = triangulate(points, np.array([5, 3, 4, 3]), silent, "f")
    assert triangles.tolist() == [
        [0, 1, 2], [0, 2, 3], [0, 3, 4], [5, 6, 7], [8, 9, 10], [8, 10, 11], [12, 13, 14],
    ]  # fmt: skip


@given(st.lists(st.tuples(*[st.integers(-2, 2)] * 3), min_size=3, max_size=12))
def test_any_polygon_ends(corners: list[tuple[int, int, int]]) -> None:
    """Also one that crosses itself, lies on a line, or is a point."""
    points = np.array(corners, float)
    triangles = triangulate(points, np.array([len(points)]), silent, "f")
    assert triangles.shape == (len(points) - 2, 3)
    assert triangles.min() >= 0 and triangles.max() < len(points)
