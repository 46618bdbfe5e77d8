"""Scene files as tracer.scene.Scene, by their extension: glTF, OBJ and PLY; and environment pictures.

Loaders are strict: whatever they return is finite and in range, and nothing that the scene cannot do
without is left out silently. A message is one line: `file: where: what; remedy`.
"""

from __future__ import annotations

from dataclasses import replace

from tracer.limits import Limits
from tracer.loaders.environment import load_environment
from tracer.loaders.gltf import load_gltf
from tracer.loaders.obj import load_obj
from tracer.loaders.ply import load_ply
from tracer.references import scene_kind
from tracer.scene import Progress, Scene, SceneFiles

__all__ = ["load_environment", "load_scene"]

LIMITS = Limits()
UNMOVED = {".obj": load_obj, ".ply": load_ply}
"""Formats that know no animation."""
MOST_WARNINGS = 40
LONGEST_WARNING = 300
"""In characters."""


def silent(step: str) -> None:
    """Progress that nobody listens to."""


def load_scene(
    entry: str,
    files: SceneFiles,
    *,
    time: float = 0.0,
    limits: Limits = LIMITS,
    progress: Progress = silent,
) -> Scene:
    """The scene in the file `entry`, with what it refers to read through `files`.

    time: seconds; says where glTF's animated nodes are (see tracer.loaders.animation). A scene without
    animations is the same at every time.
    Raises SceneInvalid, SceneUnsupported and AssetMissing.
    """
    load = UNMOVED.get(scene_kind(entry))
    if load is None:
        scene = load_gltf(entry, files, time, limits, progress)
    else:
        scene = load(entry, files, limits, progress)
    return replace(scene, warnings=_readable(scene.warnings))


def _readable(warnings: tuple[str, ...]) -> tuple[str, ...]:
    """Each once, and no more than a person reads: they travel with the frame's status."""
    different = [w if len(w) <= LONGEST_WARNING else w[:LONGEST_WARNING] + "..." for w in warnings]
    different = list(dict.fromkeys(different))
    if len(different) > MOST_WARNINGS:
        more = len(different) - MOST_WARNINGS
        different = [*different[:MOST_WARNINGS], f"{more} more warnings about this scene"]
    return tuple(different)
