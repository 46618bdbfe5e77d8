"""The same Scene given to Mitsuba 3. Covers what bench.scenes uses, and refuses the rest.

Its conventions: cameras look along +Z with +X to the left; emitters shine along the normal, as ours do;
environments are laid out as ours are.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracer.scene import Environment, Material, Mesh, Scene, View

LIBRARY = "DRJIT_LIBLLVM_PATH"
LLVM = (
    "/usr/lib/x86_64-linux-gnu/libLLVM.so.19.1",
    "/usr/lib/aarch64-linux-gnu/libLLVM.so.19.1",
)
"""Where Debian's libllvm19 is. With other versions that are about, Dr.Jit aborts."""
NO_ROULETTE = 1 << 20


class MitsubaScene:
    """One scene and view in one variant of Mitsuba.

    Raises ImportError where Mitsuba, or its LLVM for llvm_ad_rgb, is not installed.
    """

    def __init__(
        self, scene: Scene, view: View, variant: str, *, sampler: str = "independent", folder: Path
    ) -> None:
        self.mi = _load(variant)
        mi = self.mi
        description: dict[str, Any] = {
            "type": "scene",
            "integrator": {"type": "path", "max_depth": view.max_depth, "rr_depth": NO_ROULETTE},
            "camera": _camera(mi, scene, view, sampler),
        }
        for number, instance in enumerate(scene.instances):
            mesh = scene.meshes[instance.mesh]
            if not np.array_equal(instance.transform, np.eye(4)):
                raise NotImplementedError("a mesh that is not in its place")
            material = scene.materials[mesh.material]
            description[f"shape{number}"] = _shape(mi, scene, mesh, material, folder / f"{number}.ply")
        if scene.environment is not None and scene.environment.pixels.any():
            description["sky"] = _sky(mi, scene.environment)
        self._variant = variant
        self._scene = mi.load_dict(description)

    def render(self, spp: int, seed: int) -> NDArray[np.float32]:
        """(height, width, 3) radiance."""
        self.mi.set_variant(self._variant)
        return np.array(self.mi.render(self._scene, spp=spp, seed=seed))[..., :3]


def set_threads(count: int) -> None:
    import drjit  # type: ignore[import-not-found,unused-ignore]

    drjit.set_thread_count(count)


def _load(variant: str) -> Any:
    if variant.startswith("llvm") and LIBRARY not in os.environ:
        found = [path for path in LLVM if os.path.exists(path)]
        if not found:
            raise ImportError(f"no libLLVM for Mitsuba: install Debian's libllvm19, or name one in {LIBRARY}")
        os.environ[LIBRARY] = found[0]
    import mitsuba  # type: ignore[import-not-found,unused-ignore]

    mitsuba.set_variant(variant)
    return mitsuba


def _camera(mi: Any, scene: Scene, view: View, sampler: str) -> dict[str, Any]:
    camera = scene.cameras[0]
    flip = np.diag([-1.0, 1.0, -1.0, 1.0])
    return {
        "type": "perspective",
        "fov": float(np.degrees(camera.vertical_fov)),
        "fov_axis": "y",
        "near_clip": 1e-3,
        "far_clip": 1e4,
        "to_world": mi.ScalarTransform4f((camera.transform @ flip).tolist()),
        "sampler": {"type": sampler},
        "film": {
            "type": "hdrfilm",
            "width": view.width,
            "height": view.height,
            "pixel_format": "rgb",
            "component_format": "float32",
            "rfilter": {"type": "box"},
        },
    }


def _shape(mi: Any, scene: Scene, mesh: Mesh, material: Material, path: Path) -> dict[str, Any]:
    write_ply(path, mesh)
    shape: dict[str, Any] = {
        "type": "ply",
        "filename": str(path),
        "face_normals": mesh.normals is None,
        "bsdf": _bsdf(mi, scene, material),
    }
    if any(material.emissive):
        shape["emitter"] = {"type": "area", "radiance": _color(material.emissive)}
    return shape


def _color(color: tuple[float, ...]) -> dict[str, Any]:
    return {"type": "rgb", "value": list(color[:3])}


def _bsdf(mi: Any, scene: Scene, material: Material) -> dict[str, Any]:
    if material.transmission == 1.0 and material.thickness > 0.0:
        return {
            "type": "roughdielectric",
            "distribution": "ggx",
            "alpha": material.roughness**2,
            "int_ior": material.ior,
            "ext_ior": 1.0,
        }
    base = _color(material.base_color)
    use = material.base_color_texture
    if use is not None:
        factor = np.array(material.base_color[:3])
        linear = _linear(scene.textures[use.texture].pixels[..., :3]) * factor
        base = _bitmap(mi, linear.astype(np.float32))
    if material.metallic == 0.0 and material.specular == 0.0:
        return {"type": "twosided", "material": {"type": "diffuse", "reflectance": base}}
    if material.metallic != 1.0 or use is None or material.metallic_roughness_texture is None:
        raise NotImplementedError("a material that Mitsuba does not compute as glTF does")
    texture = scene.textures[material.metallic_roughness_texture.texture]
    rough = (texture.pixels[..., 1:2] / 255.0 * material.roughness).astype(np.float32)
    metal = {
        "type": "roughconductor",
        "material": "none",
        "distribution": "ggx",
        "specular_reflectance": base,
        "alpha": _bitmap(mi, rough * rough),
    }
    return {"type": "twosided", "material": metal}


def _linear(srgb: NDArray[Any]) -> NDArray[np.float64]:
    c = srgb / 255.0
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def _bitmap(mi: Any, pixels: NDArray[np.float32]) -> dict[str, Any]:
    return {"type": "bitmap", "bitmap": mi.Bitmap(np.ascontiguousarray(pixels)), "raw": True}


def _sky(mi: Any, environment: Environment) -> dict[str, Any]:
    pixels = environment.pixels * np.float32(environment.scale)
    if pixels.shape[:2] == (1, 1):
        return {"type": "constant", "radiance": _color(tuple(float(c) for c in pixels[0, 0]))}
    return {"type": "envmap", "bitmap": mi.Bitmap(np.ascontiguousarray(pixels))}


def write_ply(path: Path, mesh: Mesh) -> None:
    """A binary PLY: the one way in that is alike in all of Mitsuba's variants."""
    columns: list[tuple[str, NDArray[Any]]] = [
        ("x", mesh.positions[:, 0]),
        ("y", mesh.positions[:, 1]),
        ("z", mesh.positions[:, 2]),
    ]
    if mesh.normals is not None:
        columns += [(name, mesh.normals[:, k]) for k, name in enumerate(("nx", "ny", "nz"))]
    if mesh.uv0 is not None:
        columns += [(name, mesh.uv0[:, k]) for k, name in enumerate(("u", "v"))]
    vertices = np.stack([values for _, values in columns], 1).astype("<f4")
    faces = np.empty(len(mesh.triangles), [("count", "u1"), ("corners", "<i4", 3)])
    faces["count"], faces["corners"] = 3, mesh.triangles
    header = ["ply", "format binary_little_endian 1.0", f"element vertex {len(vertices)}"]
    header += [f"property float {name}" for name, _ in columns]
    header += [f"element face {len(faces)}", "property list uchar int vertex_indices", "end_header", ""]
    path.write_bytes("\n".join(header).encode() + vertices.tobytes() + faces.tobytes())
