"""Instances become triangles of one world: placed in float64, rebased to the scene's centre, then float32.

Elementwise arithmetic only: BLAS would give other bytes on other processors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracer.errors import SceneInvalid, SceneUnsupported
from tracer.kernels.layout import GROUP, SHAPE, Records, records
from tracer.limits import Limits
from tracer.scene import Instance, Mesh, Progress, Scene
from tracer.viewpoint import Sphere

CHUNK = 250_000
"""Vertices or triangles handled between two calls of progress: a few hundredths of a second."""
LARGEST_EXTENT = 1e15
"""Beyond it the areas of boxes leave float32."""

Float64 = NDArray[np.float64]
Float32 = NDArray[np.float32]


class World(NamedTuple):
    """All triangles that have an area, relative to bounds.center, and their attributes.

    dropped: triangles without area, which no ray can meet.
    """

    bounds: Sphere
    positions: Float32
    triangles: NDArray[np.int32]
    shape_hints: NDArray[np.int32]
    shapes: Records
    normals: Float32
    tangents: Float32
    uvs: Float32
    colors: Float32
    dropped: int


def flatten(scene: Scene, limits: Limits, progress: Progress) -> World:
    """Raises SceneUnsupported past a limit, SceneInvalid for transforms that are not finite."""
    total = sum(len(scene.meshes[i.mesh].triangles) for i in scene.instances)
    if total > limits.triangles:
        raise SceneUnsupported(
            f"the scene has {total} triangles once its {len(scene.instances)} instances are expanded; "
            f"at most {limits.triangles} can be rendered"
        )
    bounds = _bounds(scene, progress)
    if not bounds.radius <= LARGEST_EXTENT:
        raise SceneUnsupported(
            f"the scene spans {bounds.radius:g} units; at most {LARGEST_EXTENT:g} can be rendered"
        )
    vertices = sum(len(scene.meshes[i.mesh].positions) for i in scene.instances)
    positions = np.empty((vertices, 3), np.float32)
    triangles = np.empty((total, 3), np.int32)
    attributes = _Attributes(scene)
    first_vertex = kept = 0
    for number, instance in enumerate(scene.instances):
        progress(f"placing mesh {number + 1} of {len(scene.instances)}")
        mesh = scene.meshes[instance.mesh]
        for begin, world in _placed(instance, mesh):
            rebased = world - np.array(bounds.center)
            positions[first_vertex + begin : first_vertex + begin + len(world)] = rebased
            progress(f"placing mesh {number + 1}, {begin} vertices")
        attributes.add(instance, first_vertex)
        mirrored = _determinant(instance.transform) < 0.0
        for begin in range(0, len(mesh.triangles), CHUNK):
            progress(f"placing mesh {number + 1}, {begin} triangles")
            chunk = mesh.triangles[begin : begin + CHUNK] + first_vertex
            chunk = chunk[_has_area(positions, chunk)]
            end = kept + len(chunk)
            # A mirrored copy turns its triangles round; the front stays the front.
            triangles[kept:end] = chunk[:, [0, 2, 1]] if mirrored else chunk
            kept = end
        attributes.close(kept)
        first_vertex += len(mesh.positions)
    shapes, normals, tangents, uvs, colors = attributes.arrays()
    firsts = np.arange(0, kept, GROUP)
    return World(
        bounds,
        positions,
        triangles[:kept],
        np.searchsorted(shapes["end_triangle"], firsts, side="right").astype(np.int32),
        shapes,
        normals,
        tangents,
        uvs,
        colors,
        total - kept,
    )


def _placed(instance: Instance, mesh: Mesh) -> Iterator[tuple[int, Float64]]:
    """(first vertex, world positions) in pieces."""
    t = instance.transform
    for begin in range(0, len(mesh.positions), CHUNK):
        p = mesh.positions[begin : begin + CHUNK]
        x, y, z = p[:, 0], p[:, 1], p[:, 2]
        with np.errstate(over="ignore", invalid="ignore"):  # found by _bounds
            rows = [t[r, 0] * x + t[r, 1] * y + t[r, 2] * z + t[r, 3] for r in range(3)]
        yield begin, np.stack(rows, axis=1)


def _bounds(scene: Scene, progress: Progress) -> Sphere:
    """Round the middle of the bounding box, as small as holds every vertex."""
    lo, hi = np.full(3, np.inf), np.full(3, -np.inf)
    for instance in scene.instances:
        mesh = scene.meshes[instance.mesh]
        for begin, world in _placed(instance, mesh):
            if not np.isfinite(world).all():
                raise SceneInvalid(f"mesh {mesh.name!r}: its transform puts vertices at no finite place")
            lo, hi = np.minimum(lo, world.min(axis=0)), np.maximum(hi, world.max(axis=0))
            progress(f"measuring mesh {mesh.name!r}, {begin} vertices")
    if not (lo <= hi).all():
        return Sphere((0.0, 0.0, 0.0), 1.0)
    center = 0.5 * lo + 0.5 * hi
    squared = 0.0
    for instance in scene.instances:
        for begin, world in _placed(instance, scene.meshes[instance.mesh]):
            x, y, z = (world - center).T
            squared = max(squared, float((x * x + y * y + z * z).max()))
            progress(f"measuring, {begin} vertices")
    x, y, z = center.tolist()
    return Sphere((x, y, z), math.sqrt(squared) or 1.0)


def _has_area(positions: Float32, triangles: NDArray[np.int64]) -> NDArray[np.bool_]:
    a, b, c = (positions[triangles[:, k]].astype(np.float64) for k in range(3))
    x, y, z = _cross(b - a, c - a)
    area: NDArray[np.bool_] = (x * x + y * y + z * z) > 0.0
    return area


def _cross(a: Float64, b: Float64) -> tuple[Float64, Float64, Float64]:
    return (
        a[:, 1] * b[:, 2] - a[:, 2] * b[:, 1],
        a[:, 2] * b[:, 0] - a[:, 0] * b[:, 2],
        a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0],
    )


def _determinant(t: Float64) -> float:
    m = t.tolist()
    return float(
        m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1])
        - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0])
        + m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0])
    )


class _Attributes:
    """What vertices carry. Texture coordinates and colours are kept once for all instances of a mesh."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._shapes: list[dict[str, int]] = []
        self._shared: dict[tuple[int, str], int] = {}
        self._parts: dict[str, list[Float32]] = {
            name: [] for name in ("normals", "tangents", "uvs", "colors")
        }
        self._counts = dict.fromkeys(self._parts, 0)

    def add(self, instance: Instance, first_vertex: int) -> None:
        mesh = self._scene.meshes[instance.mesh]
        shape = {"material": mesh.material, "first_vertex": first_vertex, "normals": -1, "tangents": -1}
        linear = instance.transform[:3, :3]
        sign = -1.0 if _determinant(instance.transform) < 0.0 else 1.0
        if mesh.normals is not None:
            shape["normals"] = self._append("normals", _unit(mesh.normals, _cofactors(linear) * sign))
        if mesh.tangents is not None:
            tangents = np.empty((len(mesh.tangents), 4), np.float32)
            tangents[:, :3] = _unit(mesh.tangents[:, :3], linear)
            tangents[:, 3] = mesh.tangents[:, 3] * np.float32(sign)
            shape["tangents"] = self._append("tangents", tangents)
        for name, kind, values in (
            ("uv0", "uvs", mesh.uv0),
            ("uv1", "uvs", mesh.uv1),
            ("colors", "colors", mesh.colors),
        ):
            key = (instance.mesh, name)
            if values is not None and key not in self._shared:
                self._shared[key] = self._append(kind, values)
            shape[name] = self._shared.get(key, -1)
        self._shapes.append(shape)

    def close(self, end_triangle: int) -> None:
        """The mesh that was added last has no triangles from this number on."""
        self._shapes[-1]["end_triangle"] = end_triangle

    def _append(self, kind: str, values: Float32) -> int:
        first = self._counts[kind]
        self._parts[kind].append(values)
        self._counts[kind] += len(values)
        return first

    def arrays(self) -> tuple[Records, Float32, Float32, Float32, Float32]:
        """(shapes, normals, tangents, uvs, colors); a row of zeros where there are none."""
        widths = {"normals": 3, "tangents": 4, "uvs": 2, "colors": 4}
        joined = [
            np.ascontiguousarray(
                np.concatenate(self._parts[kind] or [np.zeros((1, width), np.float32)]), np.float32
            )
            for kind, width in widths.items()
        ]
        normals, tangents, uvs, colors = joined
        return records(SHAPE, list(self._shapes)), normals, tangents, uvs, colors


def _cofactors(m: Float64) -> Float64:
    """The matrix that takes normals along: the determinant times the inverse's transpose."""
    a, b, c = m[:, 0:1].T, m[:, 1:2].T, m[:, 2:3].T
    return np.array([_cross(b, c), _cross(c, a), _cross(a, b)])[:, :, 0].T


def _unit(vectors: Float32, m: Float64) -> Float32:
    """The vectors taken along by m, unit; zero where there is no direction."""
    largest = float(np.abs(m).max()) or 1.0  # huge and tiny scales would leave float64 when squared
    m = m / largest
    x, y, z = (vectors[:, k].astype(np.float64) for k in range(3))
    moved = np.stack([m[r, 0] * x + m[r, 1] * y + m[r, 2] * z for r in range(3)], axis=1)
    x, y, z = moved.T
    length = np.sqrt(x * x + y * y + z * z)
    usable = np.isfinite(length) & (length > 0.0)
    unit = np.zeros(moved.shape, np.float32)
    unit[usable] = moved[usable] / length[usable, None]
    return unit
