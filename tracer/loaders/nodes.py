"""The node hierarchy: what it places where. Walked with a list, so that no depth and no cycle can harm.

Matrices are multiplied element by element: BLAS would give other bytes on other processors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracer.errors import SceneUnsupported
from tracer.limits import Limits
from tracer.loaders.accessors import Accessors
from tracer.loaders.animation import Pose
from tracer.loaders.container import Element
from tracer.scene import Progress

Matrix = NDArray[np.float64]
Vec3 = tuple[float, float, float]
AFFINE = 1e-5
"""How far the last row of a matrix may be from 0 0 0 1."""
AT_REST: Pose = {}
BEAT = 1000
"""Nodes between two calls of progress."""


class Placed(NamedTuple):
    """A node of the scene and its matrix to the world."""

    node: Element
    transform: Matrix


def walk(
    top: Element, poses: dict[int, Pose], limits: Limits, warnings: list[str], progress: Progress
) -> Iterator[Placed]:
    """Every node of the default scene, parents first, children in the file's order.

    poses: what animation says, by the node's number.
    Raises SceneInvalid for a node that is reached twice: glTF's nodes are trees.
    """
    nodes = top.children("nodes")
    if len(nodes) > limits.nodes:
        raise SceneUnsupported(f"{top.where('nodes')}: {len(nodes)}; at most {limits.nodes} are read")
    identity: Matrix = np.eye(4)
    seen = [False] * len(nodes)
    waiting = [(number, identity) for number in reversed(_roots(top, nodes, warnings))]
    count = 0
    while waiting:
        number, parent = waiting.pop()
        node = nodes[number]
        if seen[number]:
            raise node.fail("", "is reached twice; nodes must be trees, without cycles")
        seen[number] = True
        transform = multiply(parent, local_transform(node, poses.get(number, AT_REST)))
        if not np.isfinite(transform).all():
            raise node.fail("", "its place in the world is not finite")
        yield Placed(node, transform)
        waiting += [(child, transform) for child in reversed(node.indices("children", len(nodes)))]
        count += 1
        if count % BEAT == 0:
            progress(f"placing node {count} of {len(nodes)}")


def _roots(top: Element, nodes: list[Element], warnings: list[str]) -> list[int]:
    scenes = top.children("scenes")
    if scenes:
        number = top.index("scene", len(scenes))
        return scenes[number or 0].indices("nodes", len(nodes))
    children = {child for node in nodes for child in node.indices("children", len(nodes))}
    if nodes:
        warnings.append(f"{top.where('scenes')}: there is none; every node is shown")
    return [number for number in range(len(nodes)) if number not in children]


def local_transform(node: Element, pose: Pose) -> Matrix:
    """The node's own (4, 4) matrix, from `matrix` or from translation, rotation and scale.

    What the pose holds replaces what the node says; it is empty for a node with a matrix.
    """
    if "matrix" in node:
        columns = node.numbers("matrix", (0.0,) * 16)
        matrix = np.array(columns).reshape(4, 4).T.copy()
        if np.abs(matrix[3] - (0.0, 0.0, 0.0, 1.0)).max() > AFFINE:
            raise node.fail("matrix", "its last row is not 0 0 0 1")
        matrix[3] = (0.0, 0.0, 0.0, 1.0)
        return matrix
    translation = pose.get("translation") or node.numbers("translation", (0.0, 0.0, 0.0))
    rotation = pose.get("rotation") or node.numbers("rotation", (0.0, 0.0, 0.0, 1.0))
    scale = pose.get("scale") or node.numbers("scale", (1.0, 1.0, 1.0))
    if not any(rotation):
        raise node.fail("rotation", "is a quaternion of length 0")
    return compose(translation, rotation, scale)


def compose(translation: tuple[float, ...], rotation: tuple[float, ...], scale: tuple[float, ...]) -> Matrix:
    """translation * rotation * scale; the quaternion (x, y, z, w) need not be unit, but not zero."""
    largest = max(abs(q) for q in rotation)  # keeps the squares inside float64
    x, y, z, w = (q / largest for q in rotation)
    s = 2.0 / (x * x + y * y + z * z + w * w)
    rows = (
        (1.0 - s * (y * y + z * z), s * (x * y - z * w), s * (x * z + y * w)),
        (s * (x * y + z * w), 1.0 - s * (x * x + z * z), s * (y * z - x * w)),
        (s * (x * z - y * w), s * (y * z + x * w), 1.0 - s * (x * x + y * y)),
    )
    matrix = np.eye(4)
    for i, row in enumerate(rows):
        matrix[i] = (row[0] * scale[0], row[1] * scale[1], row[2] * scale[2], translation[i])
    return matrix


def multiply(a: Matrix, b: Matrix) -> Matrix:
    with np.errstate(over="ignore", invalid="ignore"):  # who asks looks whether it is finite
        return a[:, 0:1] * b[0:1] + a[:, 1:2] * b[1:2] + a[:, 2:3] * b[2:3] + a[:, 3:4] * b[3:4]


def copies(node: Element, accessors: Accessors) -> list[Matrix] | None:
    """The matrices of EXT_mesh_gpu_instancing, in the node's space; None where it has none."""
    extension = node.extension("EXT_mesh_gpu_instancing")
    if extension is None:
        return None
    attributes = extension.required("attributes")
    widths = {"TRANSLATION": 3, "ROTATION": 4, "SCALE": 3}
    values = {
        key: accessors.floats(attributes, key, (width,), np.float64)
        for key, width in widths.items()
        if key in attributes
    }
    counts = {len(array) for array in values.values()}
    if len(counts) != 1:
        raise extension.fail("attributes", "TRANSLATION, ROTATION and SCALE are missing or differ in number")
    count = counts.pop()
    defaults = {"TRANSLATION": (0.0,) * 3, "ROTATION": (0.0, 0.0, 0.0, 1.0), "SCALE": (1.0,) * 3}
    rows = {
        key: values[key].tolist() if key in values else [default] * count for key, default in defaults.items()
    }
    if not all(any(rotation) for rotation in rows["ROTATION"]):
        raise attributes.fail("ROTATION", "holds a quaternion of length 0")
    return [compose(*each) for each in zip(rows["TRANSLATION"], rows["ROTATION"], rows["SCALE"], strict=True)]
