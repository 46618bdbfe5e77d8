"""Scenes that are given in numbers (scene.json) as scenes of the tracer. Spheres become fine icospheres with
the sphere's own normals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.tracer.worlds import NO_ENVIRONMENT, constant_sky, look, sphere
from tracer.scene import Environment, Instance, Material, Mesh, Scene, Texture, TextureUse, Wrap

SUBDIVISIONS = 5
"""20,480 triangles: flat by a few ten-thousandths of the radius at most."""


def environment_of(facts: dict[str, Any], folder: Path) -> Environment:
    """glTF has none: the reference says it in its scene.json."""
    for light in facts["lights"]:
        if light["type"] == "constant":
            return constant_sky(*light["radiance"])
        if light["type"] == "envmap":
            return Environment(np.load(folder / light["file"]).astype(np.float32), light["scale"])
    return NO_ENVIRONMENT


def scene_of(facts: dict[str, Any], folder: Path) -> Scene:
    camera = facts["camera"]
    assert camera["type"] == "perspective" and camera["fov_axis"] == "y", camera
    materials: list[Material] = []
    textures: list[Texture] = []
    meshes: list[Mesh] = []
    transforms = []
    for thing in facts["objects"]:
        materials.append(_material(facts["materials"][thing["material"]], folder, textures))
        if "emission" in thing:
            materials[-1] = _emitting(materials[-1], thing["emission"]["radiance"])
        transform = np.eye(4)
        if thing["shape"] == "sphere":
            meshes.append(sphere(SUBDIVISIONS, len(materials) - 1, smooth=True, radius=thing["radius"]))
            transform[:3, 3] = thing["center"]
        else:
            meshes.append(_mesh(facts["meshes"][thing["mesh"]], len(materials) - 1))
            transform = np.array(thing.get("transform", transform), np.float64).reshape(4, 4)
        transforms.append(transform)
    return Scene(
        meshes=tuple(meshes),
        materials=tuple(materials),
        textures=tuple(textures),
        instances=tuple(Instance(i, transform) for i, transform in enumerate(transforms)),
        cameras=(look(tuple(camera["origin"]), tuple(camera["target"]), camera["fov_deg"]),),
        environment=environment_of(facts, folder),
    )


def _mesh(facts: dict[str, Any], material: int) -> Mesh:
    uv = np.array(facts["uv"], np.float32) if "uv" in facts else None
    return Mesh("mesh", np.array(facts["vertices"], np.float64), np.array(facts["faces"]), material, uv0=uv)


def _material(facts: dict[str, Any], folder: Path, textures: list[Texture]) -> Material:
    """Diffuse without a coat; a conductor of one reflectance at every angle is what an infinite ior makes."""
    two_sided = facts.get("two_sided", False)
    match facts["type"]:
        case "diffuse":
            return _diffuse(facts["reflectance"], two_sided, folder, textures)
        case "dielectric":
            ior = facts["int_ior"] / facts["ext_ior"]
            return Material(metallic=0.0, roughness=0.0, ior=ior, transmission=1.0, thickness=1.0)
        case "mirror" | "rough_conductor_ggx":
            (reflectance,) = set(facts["specular_reflectance"])
            assert facts.get("fresnel", "one") == "one", facts
            return Material(
                base_color=(0.0, 0.0, 0.0, 1.0),
                metallic=0.0,
                roughness=facts.get("alpha", 0.0) ** 0.5,
                ior=0.0,
                specular=reflectance,
                double_sided=True,
            )
        case "gltf_metal":
            colour = (*facts["base_color"], 1.0)
            return Material(base_color=colour, roughness=facts["roughness"], double_sided=True)
        case other:
            raise AssertionError(f"no translation of {other}")


def _diffuse(reflectance: Any, two_sided: bool, folder: Path, textures: list[Texture]) -> Material:
    plain = Material(metallic=0.0, specular=0.0, double_sided=two_sided)
    if isinstance(reflectance, list):
        return replace(plain, base_color=(*reflectance, 1.0))
    pixels = np.load(folder / reflectance["file"]).astype(np.float32)
    # The renderer decodes base colours from sRGB, and these numbers are linear.
    encoded = np.where(pixels <= 0.0031308, 12.92 * pixels, 1.055 * np.power(pixels, 1 / 2.4) - 0.055)
    rgba = np.concatenate([encoded, np.ones((*pixels.shape[:2], 1))], axis=-1).astype(np.float32)
    linear = reflectance["filter"] != "nearest"
    wrap = {"repeat": Wrap.REPEAT, "clamp": Wrap.CLAMP, "mirror": Wrap.MIRROR}[reflectance["wrap"]]
    textures.append(Texture("texture", rgba, wrap, wrap, linear))
    u, v = reflectance.get("uv_scale", (1.0, 1.0))
    use = TextureUse(len(textures) - 1, 0, (u, 0.0, 0.0, 0.0, v, 0.0))
    return replace(plain, base_color_texture=use)


def _emitting(material: Material, radiance: list[float]) -> Material:
    """From its front only: a double-sided emitter would shine from behind as well."""
    r, g, b = radiance
    return replace(material, emissive=(r, g, b), double_sided=False)
