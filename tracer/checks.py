"""What kernels trust: numbers that point into arrays. They read without looking, so it is looked at here.

Loaders have said already what is wrong with a file; this guards the process against what they let pass.
"""

from __future__ import annotations

from tracer.errors import SceneInvalid
from tracer.scene import Material, Mesh, Progress, Scene, TextureUse

CHUNK = 1_000_000
"""Triangles checked between two calls of progress."""


def check_scene(scene: Scene, progress: Progress) -> None:
    """Raises SceneInvalid, naming the element, for an index out of range or an array of the wrong length."""
    for texture in scene.textures:
        if texture.pixels.ndim != 3 or texture.pixels.shape[2] != 4 or 0 in texture.pixels.shape:
            raise SceneInvalid(f"texture {texture.name!r}: no picture of RGBA but {texture.pixels.shape}")
    for material in scene.materials:
        for use in _uses(material):
            if not 0 <= use.texture < len(scene.textures):
                raise SceneInvalid(f"material {material.name!r}: there is no texture {use.texture}")
    for mesh in scene.meshes:
        _check_mesh(mesh, len(scene.materials), progress)
    for instance in scene.instances:
        if not 0 <= instance.mesh < len(scene.meshes):
            raise SceneInvalid(f"an instance places mesh {instance.mesh}, which there is not")


def _uses(material: Material) -> list[TextureUse]:
    values = (getattr(material, name) for name in material.__dataclass_fields__)
    return [value for value in values if isinstance(value, TextureUse)]


def _check_mesh(mesh: Mesh, materials: int, progress: Progress) -> None:
    name, count = f"mesh {mesh.name!r}", len(mesh.positions)
    if not 0 <= mesh.material < materials:
        raise SceneInvalid(f"{name}: there is no material {mesh.material}")
    for kind, width in (("normals", 3), ("tangents", 4), ("uv0", 2), ("uv1", 2), ("colors", 4)):
        values = getattr(mesh, kind)
        if values is not None and values.shape != (count, width):
            raise SceneInvalid(f"{name}: its {kind} are {values.shape}, not {(count, width)}")
    for begin in range(0, len(mesh.triangles), CHUNK):
        progress(f"checking {name}, {begin} triangles")
        chunk = mesh.triangles[begin : begin + CHUNK]
        if chunk.min() < 0 or chunk.max() >= count:
            raise SceneInvalid(f"{name}: a triangle names a vertex that is not among its {count}")
