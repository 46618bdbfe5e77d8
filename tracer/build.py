"""prepare: from a scene and a view to the arrays that kernels read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracer.appearance import make_appearance
from tracer.bvh import build_bvh
from tracer.checks import check_scene
from tracer.flatten import World, flatten
from tracer.kernels.layout import FRAME, Geometry, Records, SceneArrays, Surfaces, records
from tracer.lighting import choose_environment, emissive_triangles, fill_lights, make_sky, unsampled
from tracer.limits import Limits
from tracer.scene import Progress, Scene, View
from tracer.viewpoint import Viewpoint, choose_viewpoint

LIMITS = Limits()
HASH_BYTES = 1 << 26
"""Bytes hashed between two calls of progress."""


@dataclass(frozen=True)
class PreparedScene:
    """One frame, ready to render. hash: sha256 over everything that rendering reads."""

    width: int
    height: int
    warnings: tuple[str, ...]
    hash: str
    camera_name: str
    arrays: SceneArrays

    @property
    def nbytes(self) -> int:
        """Memory that the arrays take."""
        return _nbytes(self.arrays)


def _nbytes(part: Any) -> int:
    """Of an array, or of a tuple of arrays and tuples."""
    return sum(map(_nbytes, part)) if isinstance(part, tuple) else int(part.nbytes)


def silent(step: str) -> None:
    """Progress that nobody listens to."""


def prepare(scene: Scene, view: View, progress: Progress = silent, limits: Limits = LIMITS) -> PreparedScene:
    """Builds everything that kernels read. progress is called at least every second and may raise.

    Raises SettingsInvalid where the view does not fit the scene, SceneInvalid and SceneUnsupported where
    the scene contradicts itself or cannot be placed in one world.
    """
    check_scene(scene, progress)
    world = flatten(scene, limits, progress)
    viewpoint = choose_viewpoint(scene, view, world.bounds)
    appearance = make_appearance(scene, progress)
    surfaces = Surfaces(
        world.shape_hints,
        world.shapes,
        appearance.materials,
        world.normals,
        world.tangents,
        world.uvs,
        world.colors,
    )
    emitters = emissive_triangles(surfaces, progress)
    environment, lit = choose_environment(scene, len(emitters) > 0)
    arrays = SceneArrays(
        _frame_record(scene, view, viewpoint, world),
        build_bvh(world.positions, world.triangles, progress),
        Geometry(world.triangles, world.positions),
        surfaces,
        appearance.textures,
        unsampled(emitters, scene.lights, world.bounds),
        make_sky(environment, progress),
    )
    arrays = arrays._replace(lights=fill_lights(arrays, len(scene.lights), progress))
    return PreparedScene(
        width=viewpoint.width,
        height=viewpoint.height,
        warnings=(
            *scene.warnings,
            *viewpoint.warnings,
            *lit,
            *appearance.warnings,
            *_geometry_warnings(world),
        ),
        hash=_hash(arrays, progress),
        camera_name=viewpoint.name,
        arrays=arrays,
    )


def _geometry_warnings(world: World) -> Iterator[str]:
    if len(world.triangles) == 0:
        yield "there is nothing to see: no triangle has an area"
    elif world.dropped:
        yield f"{world.dropped} triangles without area were left out"


def _frame_record(scene: Scene, view: View, viewpoint: Viewpoint, world: World) -> Records:
    origin, center = viewpoint.origin, world.bounds.center
    row = {
        "origin": (origin[0] - center[0], origin[1] - center[1], origin[2] - center[2]),
        "forward": viewpoint.forward,
        "right": viewpoint.right,
        "up": viewpoint.up,
        "tan_x": viewpoint.tan_x,
        "tan_y": viewpoint.tan_y,
        "aperture_radius": viewpoint.aperture_radius,
        "focus_distance": viewpoint.focus_distance,
        "width": viewpoint.width,
        "height": viewpoint.height,
        "seed": view.seed,
        "frame": view.frame,
        "max_depth": view.max_depth,
        "hide_environment": view.hide_environment,
        "backfaces_black": view.backfaces_black,
        "has_alpha": any(m.alpha_mode != 0 for m in scene.materials),
    }
    return records(FRAME, [row])


def _leaves(value: Any, name: str) -> Iterator[tuple[str, NDArray[Any]]]:
    """Every array in nested named tuples, with its path."""
    if isinstance(value, np.ndarray):
        yield name, value
    else:
        for field in value._fields:
            yield from _leaves(getattr(value, field), f"{name}.{field}")


def _hash(arrays: SceneArrays, progress: Progress) -> str:
    digest = hashlib.sha256()
    for name, array in _leaves(arrays, "scene"):
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        raw = array.reshape(-1).view(np.uint8)
        for begin in range(0, len(raw), HASH_BYTES):
            progress(f"hashing {name}")
            digest.update(raw[begin : begin + HASH_BYTES].data)
    return digest.hexdigest()
