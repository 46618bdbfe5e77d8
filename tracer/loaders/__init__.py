"""Scene files as tracer.scene.Scene, by their extension: glTF, OBJ and PLY; and environment pictures.

Loaders are strict: whatever they return is finite and in range, and nothing that the scene cannot do
without is left out silently. A message is one line: `file: where: what; remedy`.
"""

from __future__ import annotations

from tracer.loaders.environment import load_environment
from tracer.loaders.gltf import load_gltf
from tracer.loaders.obj import load_obj
from tracer.loaders.ply import load_ply
from tracer.references import scene_kind
from tracer.scene import Limits, Progress, Scene, SceneFiles

__all__ = ["load_environment", "load_scene"]

LIMITS = Limits()


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

    time: seconds; nothing moves yet, and a file that holds animations says so in the scene's warnings.
    Raises SceneInvalid, SceneUnsupported and AssetMissing.
    """
    kind = scene_kind(entry)
    if kind in (".gltf", ".glb"):
        return load_gltf(entry, files, limits, progress)
    if kind == ".obj":
        return load_obj(entry, files, limits, progress)
    return load_ply(entry, files, limits, progress)
