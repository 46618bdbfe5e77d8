"""glTF: textures, the pictures that they are read from, and the references that lead to them."""

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
from tracer.limits import Limits
from tracer.loaders import load_scene
from tracer.scene import Scene, TextureUse, Wrap


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
    outside = ("../t.png", "/t.png", "C:/t.png", "http:/127.0.0.1:9/t.png", "file:/t.png")
    g.files |= dict.fromkeys(outside, g.files["t.png"])  # it is refused, not just missing
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


def test_a_buffer_that_announces_more_than_is_there_is_refused() -> None:
    g, _ = textured()
    size = len(g.data)
    document = g.json | {"buffers": [{"byteLength": size, "uri": "b.bin"}]}
    files = Memory(g.files | {"s.gltf": json.dumps(document).encode(), "b.bin": bytes(g.data) + b"more"})
    load_scene("s.gltf", files)
    document["buffers"][0]["byteLength"] = size + 5
    files["s.gltf"] = json.dumps(document).encode()
    with pytest.raises(SceneInvalid, match=rf"announces {size + 5} bytes but there are {size + 4}"):
        load_scene("s.gltf", files)
