"""glTF: materials, with the extensions that change them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.loaders.files import Gltf
from tracer.errors import SceneInvalid
from tracer.scene import AlphaMode, Material


def material_of(**material: Any) -> Material:
    return Gltf().material(**material).load().materials[0]


def extended(**extensions: Any) -> Material:
    return material_of(extensions={f"KHR_materials_{name}": value for name, value in extensions.items()})


def test_factors() -> None:
    pbr = {"baseColorFactor": [0.1, 0.2, 0.3, 0.4], "metallicFactor": 0.5, "roughnessFactor": 0.6}
    found = material_of(
        name="m",
        pbrMetallicRoughness=pbr,
        emissiveFactor=[0.1, 0.2, 0.3],
        alphaMode="MASK",
        alphaCutoff=0.7,
        doubleSided=True,
    )
    expected = Material(
        name="m",
        base_color=(0.1, 0.2, 0.3, 0.4),
        metallic=0.5,
        roughness=0.6,
        emissive=(0.1, 0.2, 0.3),
        alpha_mode=AlphaMode.MASK,
        alpha_cutoff=0.7,
        double_sided=True,
    )
    assert found == expected
    assert material_of() == Material()


def test_a_mesh_without_material_has_the_default_one() -> None:
    g = Gltf()
    g.show(g.primitive(), g.primitive(material=g.add("materials", name="m")), g.primitive())
    scene = g.load()
    assert [m.name for m in scene.materials] == ["default", "m"]
    assert [m.material for m in scene.meshes] == [0, 1, 0]
    assert scene.materials[0] == Material(name="default")


def test_extensions() -> None:
    lamp = Gltf().material(
        emissiveFactor=[1, 0.5, 0],
        extensions={"KHR_materials_emissive_strength": {"emissiveStrength": 20}},
    )
    assert lamp.load().materials[0].emissive == (20, 10, 0)
    assert (extended(ior={"ior": 1.33}).ior, extended(ior={}).ior, extended(ior={"ior": 0}).ior) == (
        1.33,
        1.5,
        0,
    )
    found = extended(specular={"specularFactor": 0.5, "specularColorFactor": [2, 1, 0]})
    assert (found.specular, found.specular_color) == (0.5, (2, 1, 0))
    assert extended(transmission={"transmissionFactor": 0.9}).transmission == 0.9
    volume = {"thicknessFactor": 2, "attenuationDistance": 3, "attenuationColor": [1, 0.5, 0]}
    found = extended(volume=volume)
    assert (found.thickness, found.attenuation_distance, found.attenuation_color) == (2, 3, (1, 0.5, 0))
    assert extended(volume={}).attenuation_distance == float("inf")
    assert extended(unlit={}).unlit and not material_of().unlit


@pytest.mark.parametrize(
    ("material", "where"),
    [
        ({"pbrMetallicRoughness": {"baseColorFactor": [1, 1, 1]}}, "baseColorFactor: not an array of 4"),
        ({"pbrMetallicRoughness": {"baseColorFactor": [1, 1, 1, 2]}}, r"baseColorFactor\[3\]: 2 is not in"),
        ({"pbrMetallicRoughness": {"metallicFactor": -0.1}}, "metallicFactor"),
        ({"pbrMetallicRoughness": {"roughnessFactor": "1"}}, "roughnessFactor: not a number"),
        ({"pbrMetallicRoughness": {"roughnessFactor": True}}, "roughnessFactor: not a number"),
        ({"pbrMetallicRoughness": []}, "pbrMetallicRoughness: not an object"),
        ({"emissiveFactor": [-1, 0, 0]}, r"emissiveFactor\[0\]: -1 is not in"),
        ({"alphaMode": "GLASS"}, "alphaMode"),
        ({"alphaCutoff": -1}, "alphaCutoff"),
        ({"doubleSided": 1}, "doubleSided: neither true nor false"),
        ({"normalTexture": {}}, r"normalTexture\.index: is missing"),
        ({"normalTexture": {"index": 0}}, r"normalTexture\.index"),
        ({"extensions": {"KHR_materials_ior": {"ior": 0.5}}}, "ior: 0.5 is neither"),
        ({"extensions": {"KHR_materials_ior": 1.5}}, "KHR_materials_ior: not an object"),
        ({"extensions": {"KHR_materials_volume": {"attenuationDistance": 0}}}, "attenuationDistance"),
        ({"extensions": {"KHR_materials_emissive_strength": {"emissiveStrength": 1e31}}}, "emissiveStrength"),
    ],
)
def test_values_that_do_not_fit_are_refused(material: dict[str, Any], where: str) -> None:
    with pytest.raises(SceneInvalid, match=rf"^s\.glb: materials\[0\]\.(\S*\.)?{where}"):
        material_of(**material)


def test_what_rounding_left_above_one_is_one() -> None:
    assert material_of(pbrMetallicRoughness={"metallicFactor": 1.00000012}).metallic == 1.0
