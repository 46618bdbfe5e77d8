"""Materials and textures as the tables that kernels read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracer.kernels import in_python
from tracer.kernels.decode import decode_srgb
from tracer.kernels.glass import LEAST_BEND
from tracer.kernels.layout import IMAGE, MATERIAL, TEXTURE_USE, Records, Textures, records
from tracer.kernels.mathematics import logarithm, srgb_to_linear
from tracer.scene import Material, Progress, Scene, TextureUse

SRGB_SLOTS = ("base_color_texture", "emissive_texture", "specular_color_texture")
LINEAR_SLOTS = ("metallic_roughness_texture", "normal_texture", "specular_texture", "transmission_texture")
DARKEST = 1e-30
"""An attenuation colour at least: nothing would be left of a channel at any distance."""
ROWS_PIXELS = 1 << 20
"""Pixels of a float texture decoded between two calls of progress."""


class Appearance(NamedTuple):
    materials: Records
    textures: Textures
    warnings: tuple[str, ...]


def make_appearance(scene: Scene, progress: Progress) -> Appearance:
    table = _Textures(scene)
    rows = [_material(material, table) for material in scene.materials]
    return Appearance(records(MATERIAL, rows), table.arrays(progress), tuple(_warnings(scene)))


def _material(m: Material, table: _Textures) -> dict[str, object]:
    uses = {name: table.use(getattr(m, name), srgb=True) for name in SRGB_SLOTS}
    uses |= {name: table.use(getattr(m, name), srgb=False) for name in LINEAR_SLOTS}
    reflected = (m.ior - 1.0) / (m.ior + 1.0)
    transmits = m.transmission > 0.0 and m.ior != 0.0
    return {
        "base_color": m.base_color,
        "emissive": m.emissive,
        "specular_color": m.specular_color,
        "metallic": m.metallic,
        "roughness": m.roughness,
        # ior 0 stands for infinite: everything is reflected (KHR_materials_ior).
        "dielectric_f0": 1.0 if m.ior == 0.0 else reflected * reflected,
        "specular": m.specular,
        "transmission": m.transmission if transmits else 0.0,
        "ior": max(m.ior, LEAST_BEND),
        "absorption": _absorption(m),
        "transmits": transmits,
        # Without a thickness it is a thin wall (KHR_materials_volume).
        "bends": transmits and m.thickness > 0.0,
        "lambertian": m.metallic == 0.0 and m.specular == 0.0 and not transmits,
        "normal_scale": m.normal_scale,
        "alpha_cutoff": m.alpha_cutoff,
        "alpha_mode": int(m.alpha_mode),
        "double_sided": m.double_sided,
        "unlit": m.unlit,
        "emits": not m.unlit and max(m.emissive) > 0.0,
        **uses,
    }


def _absorption(m: Material) -> tuple[float, ...]:
    """Per unit of length, so that attenuation_color is left after attenuation_distance (Beer-Lambert)."""
    if m.attenuation_distance == float("inf"):
        return (0.0, 0.0, 0.0)
    log = in_python(logarithm)
    return tuple(-log(max(c, DARKEST)) / m.attenuation_distance for c in m.attenuation_color)


def _warnings(scene: Scene) -> list[str]:
    """What is approximated, each thing once."""
    found: dict[str, str] = {}
    for mesh in scene.meshes:
        m = scene.materials[mesh.material]
        if m.normal_texture is not None and mesh.tangents is None:
            found.setdefault("tangents", m.name)
    sentences = {
        "tangents": "normal texture on a mesh without tangents: made per triangle, not by MikkTSpace",
    }
    return [f"material {name!r}: {sentences[key]}" for key, name in found.items()]


class _Textures:
    """Collects the uses of textures. A float texture is decoded once for each encoding it is used with."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._uses: list[dict[str, object]] = []
        self._images: dict[tuple[int, bool], int] = {}

    def use(self, use: TextureUse | None, *, srgb: bool) -> int:
        """The number of a row of Textures.uses; -1 for no texture."""
        if use is None:
            return -1
        is_float = self._scene.textures[use.texture].pixels.dtype == np.float32
        image = self._images.setdefault((use.texture, is_float and srgb), len(self._images))
        row = {"image": image, "texcoord": use.texcoord, "srgb": srgb, "transform": use.transform}
        if row in self._uses:
            return self._uses.index(row)
        self._uses.append(row)
        return len(self._uses) - 1

    def arrays(self, progress: Progress) -> Textures:
        rows: list[dict[str, object]] = []
        texels: dict[bool, list[NDArray[np.uint8] | NDArray[np.float32]]] = {True: [], False: []}
        counts = {True: 0, False: 0}
        for texture, decoded in self._images:
            t = self._scene.textures[texture]
            progress(f"texture {t.name!r}")
            is_float = t.pixels.dtype == np.float32
            pixels = t.pixels.reshape(-1, 4)
            if decoded:
                pixels = _decoded(pixels.astype(np.float32), progress)
            rows.append(
                {
                    "first": counts[is_float],
                    "width": t.pixels.shape[1],
                    "height": t.pixels.shape[0],
                    "wrap_u": int(t.wrap_u),
                    "wrap_v": int(t.wrap_v),
                    "linear_filter": t.linear_filter,
                    "is_float": is_float,
                }
            )
            texels[is_float].append(pixels)
            counts[is_float] += len(pixels)
        return Textures(
            records(TEXTURE_USE, self._uses),
            records(IMAGE, rows),
            np.ascontiguousarray(np.concatenate(texels[False] or [np.zeros((1, 4), np.uint8)]), np.uint8),
            np.ascontiguousarray(np.concatenate(texels[True] or [np.zeros((1, 4), np.float32)]), np.float32),
            decode_table(),
        )


def decode_table() -> NDArray[np.float32]:
    """(2, 256): what an 8-bit value stands for, as it is and sRGB encoded."""
    values = [i / 255.0 for i in range(256)]
    return np.array([values, [in_python(srgb_to_linear)(v) for v in values]], np.float32)


def _decoded(pixels: NDArray[np.float32], progress: Progress) -> NDArray[np.float32]:
    """The pixels (n, 4) with their colours made linear."""
    for begin in range(0, len(pixels), ROWS_PIXELS):
        progress(f"decoding a texture, {begin} pixels")
        decode_srgb(pixels[begin : begin + ROWS_PIXELS])
    return pixels
