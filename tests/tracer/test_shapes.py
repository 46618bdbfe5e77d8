"""Which mesh a triangle belongs to, however small the meshes are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracer.build import prepare
from tracer.kernels import entry
from tracer.kernels.layout import Surfaces, shape_of
from tracer.scene import Instance, Material, Mesh, Scene, View


@entry
def look_up_shapes(surfaces: Surfaces, out: NDArray[np.int64]) -> None:
    for triangle in range(len(out)):
        out[triangle] = shape_of(surfaces, triangle)


def test_each_triangle_knows_its_shape() -> None:
    random = np.random.default_rng(11)
    counts = random.integers(0, 30, 40)
    counts[5], counts[6], counts[7] = 0, 1, 0  # shapes of which nothing is left, side by side
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], np.float64)
    meshes = tuple(
        Mesh(
            str(i),
            corners,
            # Two triangles without area, dropped, around those that stay.
            np.array([[0, 1, 1], *[[0, 1, 2]] * count, [2, 2, 2]]),
            0,
        )
        for i, count in enumerate(counts)
    )
    instances = tuple(Instance(i, np.eye(4)) for i in range(len(meshes)))
    scene = Scene(meshes, (Material(),), (), instances)
    prepared = prepare(scene, View(width=2, height=2))
    found = np.empty(counts.sum(), np.int64)
    look_up_shapes(prepared.arrays.surfaces, found)
    assert found.tolist() == np.repeat(np.arange(len(counts)), counts).tolist()
