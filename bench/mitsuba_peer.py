"""Mitsuba 3 on the same scenes: our scene becomes its dictionary, materials by what both sides mean alike.

Needs the package mitsuba and, for its LLVM variant, a libLLVM that it works with: named in
DRJIT_LIBLLVM_PATH, or libLLVM 19 where the system's linker finds it.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracer.scene import Light, LightKind, Material, Mesh, Scene, TextureUse, View

SCALAR, LLVM = "scalar_rgb", "llvm_ad_rgb"
NEVER = 1 << 20
"""Russian roulette begins after any path has ended: we have none."""
LIBRARY = "libLLVM.so.19.1"


def missing() -> str:
    """Why there is no comparison; empty where there is one."""
    if "DRJIT_LIBLLVM_PATH" not in os.environ:
        with suppress(OSError):
            ctypes.CDLL(LIBRARY)
            os.environ["DRJIT_LIBLLVM_PATH"] = LIBRARY
    try:
        import mitsuba  # noqa: F401
    except ImportError as error:
        return f"mitsuba cannot be imported: {error}"
    return ""


class MitsubaScene:
    """A scene in one variant. Only one variant is active at a time: every call says which."""

    def __init__(self, scene: Scene, view: View, variant: str, folder: Path, threads: int) -> None:
        """folder: where meshes are left for Mitsuba to read."""
        import drjit
        import mitsuba

        self._mi, self._variant, self._view = mitsuba, variant, view
        mitsuba.set_variant(variant)
        # Its log goes to standard output, where --json has its document.
        mitsuba.set_log_level(mitsuba.LogLevel.Error)
        drjit.set_thread_count(threads)
        self._scene = mitsuba.load_dict(_dictionary(mitsuba, scene, view, folder))
        self._sensors: dict[tuple[str, int], Any] = {}
        self._sensor_of = scene.cameras[0]

    def render(self, samples: int, seed: int, sampler: str = "independent") -> NDArray[np.float32]:
        """(height, width, 3) linear. The sampler may round the number of samples up."""
        self._mi.set_variant(self._variant)
        key = sampler, samples
        if key not in self._sensors:
            self._sensors[key] = self._mi.load_dict(self._sensor(sampler, samples))
        picture = self._mi.render(self._scene, sensor=self._sensors[key], seed=seed)
        return np.array(picture)  # waits for it

    def _sensor(self, sampler: str, samples: int) -> dict[str, Any]:
        t = self._sensor_of.transform
        origin, up, forward = t[:3, 3], t[:3, 1], -t[:3, 2]
        look = self._mi.ScalarTransform4f().look_at(
            list(map(float, origin)), list(map(float, origin + forward)), list(map(float, up))
        )
        return {
            "type": "perspective",
            "to_world": look,
            "fov_axis": "y",
            "fov": float(np.degrees(self._sensor_of.vertical_fov)),
            "near_clip": 1e-3,
            "sampler": {"type": sampler, "sample_count": samples},
            "film": {
                "type": "hdrfilm",
                "width": self._view.width,
                "height": self._view.height,
                "pixel_format": "rgb",
                "component_format": "float32",
                "rfilter": {"type": "box"},
            },
        }


def _dictionary(mi: Any, scene: Scene, view: View, folder: Path) -> dict[str, Any]:
    # max_depth counts segments on both sides: 1 is what the camera sees emit.
    result: dict[str, Any] = {
        "type": "scene",
        "integrator": {"type": "path", "max_depth": view.max_depth, "rr_depth": NEVER},
    }
    for number, instance in enumerate(scene.instances):
        assert np.array_equal(instance.transform, np.eye(4)), "bench scenes are placed already"
        mesh = scene.meshes[instance.mesh]
        path = folder / f"{number}.ply"
        if not path.exists():
            write_ply(path, mesh)
        material = scene.materials[mesh.material]
        shape = {"type": "ply", "filename": str(path), "face_normals": mesh.normals is None}
        shape["bsdf"] = _bsdf(mi, scene, material)
        if max(material.emissive) > 0.0:
            shape["emitter"] = {"type": "area", "radiance": _rgb(material.emissive)}
        result[f"shape{number}"] = shape
    for number, light in enumerate(scene.lights):
        result[f"light{number}"] = _light(light)
    if scene.environment is not None and scene.environment.pixels.any():
        pixels = scene.environment.pixels
        if pixels.shape[:2] == (1, 1):
            result["sky"] = {"type": "constant", "radiance": _rgb(pixels[0, 0])}
        else:
            result["sky"] = {"type": "envmap", "bitmap": mi.Bitmap(pixels)}
    return result


def _rgb(color: Any) -> dict[str, Any]:
    return {"type": "rgb", "value": [float(c) for c in color[:3]]}


def _bsdf(mi: Any, scene: Scene, m: Material) -> dict[str, Any]:
    if m.transmission == 1.0 and m.thickness > 0.0:
        return {"type": "dielectric", "int_ior": m.ior, "ext_ior": 1.0}
    color = _texture(mi, scene, m.base_color_texture) if m.base_color_texture else _rgb(m.base_color)
    if m.metallic == 0.0 and m.specular == 0.0:
        return {"type": "diffuse", "reflectance": color}
    if m.metallic == 1.0 and m.metallic_roughness_texture is not None:
        # Its metals are Schlick over separable Smith GGX, as glTF's are.
        rough = _texture(mi, scene, m.metallic_roughness_texture, channel=1)
        return {"type": "principled", "base_color": color, "roughness": rough, "metallic": 1.0}
    raise ValueError(f"no material of Mitsuba's means the same as {m}")


def _texture(mi: Any, scene: Scene, use: TextureUse, channel: int | None = None) -> dict[str, Any]:
    """One channel is taken as it is, colours are sRGB."""
    pixels = scene.textures[use.texture].pixels
    part = pixels[..., :3] if channel is None else pixels[..., channel : channel + 1]
    bitmap = mi.Bitmap(np.ascontiguousarray(part))
    return {"type": "bitmap", "bitmap": bitmap, "raw": channel is not None}


def _light(light: Light) -> dict[str, Any]:
    assert light.kind is LightKind.DIRECTIONAL, light.kind
    return {
        "type": "directional",
        "direction": list(light.direction),
        "irradiance": _rgb(light.intensity),
    }


def write_ply(path: Path, mesh: Mesh) -> None:
    """Binary, with what of normals and texture coordinates there is."""
    columns: list[tuple[tuple[str, ...], NDArray[np.floating]]] = [(("x", "y", "z"), mesh.positions)]
    if mesh.normals is not None:
        columns.append((("nx", "ny", "nz"), mesh.normals))
    if mesh.uv0 is not None:
        columns.append((("u", "v"), mesh.uv0))
    names = [name for group, _ in columns for name in group]
    vertices = np.concatenate([np.asarray(values, "<f4") for _, values in columns], axis=1)
    faces = np.empty(len(mesh.triangles), [("count", "u1"), ("corners", "<i4", 3)])
    faces["count"], faces["corners"] = 3, mesh.triangles
    header = ["ply", "format binary_little_endian 1.0", f"element vertex {len(vertices)}"]
    header += [f"property float {name}" for name in names]
    header += [f"element face {len(faces)}", "property list uchar int vertex_indices", "end_header", ""]
    path.write_bytes("\n".join(header).encode() + vertices.tobytes() + faces.tobytes())
