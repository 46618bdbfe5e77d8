"""glTF: materials, textures, and the pictures that they are read from."""

from __future__ import annotations

import base64
import io
import json
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.loaders.files import Gltf, Memory, png
from tracer.errors import AssetMissing, SceneInvalid, SceneUnsupported
from tracer.loaders import load_scene
from tracer.scene import AlphaMode, Limits, Material, Scene, TextureUse, Wrap


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


def textured(**info: Any) -> tuple[Gltf, Scene]:
    g = Gltf()
    texture = {"index": g.texture(), **info}
    g.material(pbrMetallicRoughness={"baseColorTexture": texture})
    return g, g.load()


def use_of(scene: Scene) -> TextureUse:
    use = scene.materials[0].base_color_texture
    assert use is not None
    return use


def test_every_texture_has_its_slot() -> None:
    g = Gltf()
    names = (
        "baseColor",
        "metallicRoughness",
        "emissive",
        "normal",
        "specular",
        "specularColor",
        "transmission",
    )
    info = {name: {"index": g.texture(name=f"{name}.png")} for name in names}
    g.material(
        pbrMetallicRoughness={f"{name}Texture": info[name] for name in ("baseColor", "metallicRoughness")},
        emissiveTexture=info["emissive"],
        normalTexture=info["normal"] | {"scale": 0.3},
        extensions={
            "KHR_materials_specular": {
                "specularTexture": info["specular"],
                "specularColorTexture": info["specularColor"],
            },
            "KHR_materials_transmission": {"transmissionTexture": info["transmission"]},
        },
    )
    m = g.load().materials[0]
    uses = (
        m.base_color_texture,
        m.metallic_roughness_texture,
        m.emissive_texture,
        m.normal_texture,
        m.specular_texture,
        m.specular_color_texture,
        m.transmission_texture,
    )
    assert [use.texture for use in uses if use] == list(range(7))
    assert m.normal_scale == 0.3


@pytest.mark.parametrize(
    ("sampler", "expected"),
    [
        ({}, (Wrap.REPEAT, Wrap.REPEAT, True)),
        ({"wrapS": 33071, "wrapT": 33648, "magFilter": 9728}, (Wrap.CLAMP, Wrap.MIRROR, False)),
        ({"magFilter": 9729, "minFilter": 9728}, (Wrap.REPEAT, Wrap.REPEAT, True)),
    ],
)
def test_samplers(sampler: dict[str, Any], expected: tuple[Wrap, Wrap, bool]) -> None:
    g = Gltf()
    g.material(pbrMetallicRoughness={"baseColorTexture": {"index": g.texture(**sampler)}})
    t = g.load().textures[0]
    assert (t.wrap_u, t.wrap_v, t.linear_filter) == expected
    g.json["samplers"][0]["wrapS"] = 1
    with pytest.raises(SceneInvalid, match=r"samplers\[0\]\.wrapS"):
        g.load()


def test_texture_transforms_offset_rotate_and_scale() -> None:
    _, scene = textured()
    assert use_of(scene) == TextureUse(0)
    transform = {"offset": [0.5, 0.25], "rotation": np.pi / 2, "scale": [2, 3], "texCoord": 1}
    _, scene = textured(extensions={"KHR_texture_transform": transform})
    use = use_of(scene)
    assert use.texcoord == 1
    # A quarter turn takes u to -v and v to u: (u, v) -> (3 v + 0.5, -2 u + 0.25).
    assert use.transform == pytest.approx((0, 3, 0.5, -2, 0, 0.25))


def test_a_third_set_of_coordinates_is_refused_by_name() -> None:
    with pytest.raises(SceneUnsupported, match="TEXCOORD_2"):
        textured(texCoord=2)


def decoded(data: bytes, name: str = "t.png") -> Any:
    g = Gltf()
    texture = g.texture(name=name)
    g.files[name] = data
    g.material(pbrMetallicRoughness={"baseColorTexture": {"index": texture}})
    return g.load().textures[0].pixels


def test_pictures_of_every_mode_become_rgba() -> None:
    grey = np.array([[0, 128], [200, 255]], np.uint8)
    assert decoded(png(grey))[0, 1].tolist() == [128, 128, 128, 255]
    assert decoded(png(np.dstack([grey, grey])))[1, 0].tolist() == [200, 200, 200, 200]
    rgb = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    assert decoded(png(rgb)).tolist() == np.dstack([rgb, np.full((2, 2), 255)]).tolist()
    assert decoded(png(rgb, "JPEG"), "t.jpg").shape == (2, 2, 4)
    stream = io.BytesIO()
    Image.fromarray(rgb).convert("P").save(stream, "PNG")
    assert decoded(stream.getvalue()).dtype == np.uint8


def test_grey_of_16_bits_is_float() -> None:
    pixels = decoded(png(np.array([[0, 257], [32768, 65535]], np.uint16)))
    assert pixels.dtype == np.float32
    assert pixels[0, 1].tolist() == [float(np.float32(257 / 65535))] * 3 + [1.0]
    assert pixels[1, 1].tolist() == [1.0] * 4


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def raw_png(width: int, height: int, depth: int, color: int, body: bytes) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(body)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def test_colours_of_16_bits_are_read_as_8_aloud() -> None:
    g = Gltf()
    texture = g.texture()
    g.files["t.png"] = raw_png(1, 1, 16, 2, b"\0" + struct.pack(">3H", 0x1234, 0x8000, 0xFFFF))
    g.material(pbrMetallicRoughness={"baseColorTexture": {"index": texture}})
    scene = g.load()
    assert scene.textures[0].pixels.tolist() == [[[0x12, 0x80, 0xFF, 255]]]
    assert "16 bits a channel are read as 8" in scene.warnings[0]


@pytest.mark.parametrize("edge", [9_000, 20_000, 2_000_000_000])
def test_a_picture_that_is_too_large_is_refused_before_it_is_decoded(edge: int) -> None:
    with pytest.raises(SceneUnsupported, match=r'images\[0\]: "t.png": .*make it smaller'):
        decoded(raw_png(edge, edge, 8, 2, b""))


def test_a_limit_of_all_textures_together() -> None:
    g = Gltf()
    info = [{"index": g.texture(name=f"{n}.png")} for n in range(2)]
    g.material(pbrMetallicRoughness={"baseColorTexture": info[0]}, emissiveTexture=info[1])
    g.load(limits=Limits(total_texture_bytes=32))
    with pytest.raises(SceneUnsupported, match="the textures take 32 bytes"):
        g.load(limits=Limits(total_texture_bytes=31))


@pytest.mark.parametrize("kind", ["BMP", "GIF", "TIFF", "WEBP"])
def test_other_pictures_are_refused(kind: str) -> None:
    with pytest.raises(SceneInvalid, match="not a readable PNG or JPEG picture"):
        decoded(png(np.zeros((2, 2, 3), np.uint8), kind))


def test_every_cut_off_picture_is_refused() -> None:
    noise = np.random.default_rng(1).integers(0, 255, (16, 16, 3), np.uint8)
    for kind in ("PNG", "JPEG"):
        data = png(noise, kind)
        for end in range(0, len(data) - 24, 7):
            with pytest.raises(SceneInvalid, match="not a readable PNG or JPEG picture"):
                decoded(data[:end])


def test_pictures_in_views_and_data_uris() -> None:
    data = png(np.full((1, 1, 3), 7, np.uint8))
    for image in (
        lambda g: {"bufferView": g.view(data), "mimeType": "image/png"},
        lambda g: {"uri": "data:image/png;base64," + base64.b64encode(data).decode()},
    ):
        g = Gltf()
        g.add("textures", source=g.add("images", **image(g)))
        g.material(pbrMetallicRoughness={"baseColorTexture": {"index": 0}})
        assert g.load().textures[0].pixels.tolist() == [[[7, 7, 7, 255]]]


def test_one_picture_under_two_samplers_is_decoded_once() -> None:
    g = Gltf()
    first = g.texture()
    second = g.add("textures", source=0)
    g.material(pbrMetallicRoughness={"baseColorTexture": {"index": first}}, emissiveTexture={"index": second})
    a, b = g.load().textures
    assert a.pixels is b.pixels


@pytest.mark.parametrize(
    ("uri", "error"),
    [
        ("missing.png", AssetMissing),
        ("../t.png", AssetMissing),
        ("/t.png", AssetMissing),
        ("C:\\t.png", AssetMissing),
        ("%2ft.png", AssetMissing),
        ("http://127.0.0.1:9/t.png", AssetMissing),
        ("file:///t.png", AssetMissing),
        ("", AssetMissing),
        ("a%00.png", AssetMissing),
        ("%ff.png", SceneInvalid),
        ("data:image/png;base64", SceneInvalid),
        ("data:image/png;base64,!!", SceneInvalid),
        (7, SceneInvalid),
    ],
)
def test_references_that_lead_nowhere_are_refused_by_their_place(uri: Any, error: type[Exception]) -> None:
    g, _ = textured()
    g.json["images"][0]["uri"] = uri
    with pytest.raises(error, match=r"^s\.glb: images\[0\]\.uri: "):
        g.load()


def test_names_are_percent_encoded_and_relative_to_the_scene() -> None:
    g, _ = textured()
    g.json["images"][0]["uri"] = "../pictures/a%20b%C3%A9.png"
    files = Memory({"x/s.glb": g.glb(), "pictures/a bé.png": g.files["t.png"]})
    assert len(load_scene("x/s.glb", files).textures) == 1


def test_a_texture_that_only_an_extension_describes_is_refused() -> None:
    g, _ = textured()
    g.json["textures"][0] = {"extensions": {"KHR_texture_basisu": {"source": 0}}}
    with pytest.raises(SceneUnsupported, match=r"only .*KHR_texture_basisu"):
        g.load()


@pytest.mark.parametrize(
    "buffer", [{"byteLength": 1 << 50}, {"byteLength": -1}, {"byteLength": 3, "uri": 5}, {"uri": "b.bin"}, {}]
)
def test_buffers_that_do_not_fit_are_refused(buffer: dict[str, Any]) -> None:
    g, _ = textured()
    document = g.json | {"buffers": [buffer]}
    files = Memory({"s.gltf": json.dumps(document).encode(), "b.bin": b"123"})
    with pytest.raises(SceneInvalid, match=r"^s\.gltf: buffers\[0\]"):
        load_scene("s.gltf", files)
