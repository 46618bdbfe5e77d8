"""Damaged files: whatever is in them, a loader returns a sound scene or refuses in one line.

The same cases in every run: each is made from its number. A failing one is shown by its seed.
"""

from __future__ import annotations

import copy
import io
import json
import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.loaders.files import Gltf, Memory, png
from tests.loaders.test_environment import SKY, hdr, npy, run_length
from tests.loaders.test_ply import FORMATS, XYZ, ply
from tests.loaders.test_shared import check_promises
from tracer.checks import check_scene
from tracer.errors import AssetMissing, SceneInvalid, SceneUnsupported
from tracer.limits import Limits
from tracer.loaders import load_environment, load_scene
from tracer.scene import Scene

ROUNDS = 150
LIMITS = Limits(texture_pixels=1 << 16, total_texture_bytes=1 << 20, triangles=1 << 16, nodes=1 << 12)
TIME = 2.0
"""Between two keys of the animation."""
ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2, 3, 255, 65536, 2**31, 2**53, 10**400, 0.5, -0.0, 1e308, 5e-324, "", "0", "../x",
    "data:,", "data:image/png;base64,AAAA", "NaN", [], {}, [0], [[]], {"index": 0}, [1e38] * 16,
)  # fmt: skip
"""What a value of JSON is replaced by."""


def rich() -> Gltf:
    """A scene that uses every part of the reader."""
    g = Gltf()
    square = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0)]
    sparse = {
        "count": 1,
        "indices": {"bufferView": g.view(b"\1\0\0\0"), "componentType": 5123},
        "values": {"bufferView": g.view(np.ones(3, "<f4").tobytes())},
    }
    texture = {"index": g.texture(np.zeros((4, 4, 3), np.uint8), wrapS=33071)}
    moved = texture | {
        "extensions": {"KHR_texture_transform": {"offset": [1, 2], "rotation": 1, "texCoord": 1}}
    }
    material = g.add(
        "materials",
        name="m",
        pbrMetallicRoughness={"baseColorFactor": [1, 1, 1, 1], "baseColorTexture": moved},
        normalTexture=texture | {"scale": 2},
        emissiveFactor=[1, 1, 1],
        alphaMode="BLEND",
        extensions={
            "KHR_materials_emissive_strength": {"emissiveStrength": 4},
            "KHR_materials_ior": {"ior": 1.4},
            "KHR_materials_specular": {"specularColorFactor": [1, 1, 1], "specularTexture": texture},
            "KHR_materials_volume": {"thicknessFactor": 1, "attenuationDistance": 2},
        },
    )
    primitive = g.primitive(
        square,
        NORMAL=g.accessor([(0, 0, 1)] * 4),
        TANGENT=g.accessor([(1, 0, 0, 1)] * 4),
        TEXCOORD_0=g.accessor([(0, 255)] * 4, "u1", normalized=True),
        TEXCOORD_1=g.accessor([(0.5, 0.5)] * 4),
        COLOR_0=g.accessor([(0, 1, 65535, 5)] * 4, "u2", normalized=True),
        indices=g.accessor([0, 1, 2, 2, 1, 3], "u2"),
        material=material,
    )
    g.json["accessors"][primitive["attributes"]["POSITION"]]["sparse"] = sparse
    instances = {"TRANSLATION": g.accessor([(1, 1, 1)] * 2), "ROTATION": g.accessor([(0, 0, 0, 1)] * 2)}
    child = g.add("nodes", extensions={"EXT_mesh_gpu_instancing": {"attributes": instances}}, mesh=0)
    g.show(primitive, g.primitive(square, mode=5), children=[child], rotation=[0, 0, 1, 1], scale=[1, 2, -3])
    g.add("cameras", type="perspective", perspective={"yfov": 1, "aspectRatio": 1})
    g.node(camera=0, matrix=[1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 1, 2, 3, 1])
    light = {"type": "spot", "color": [1, 1, 1], "intensity": 2, "spot": {"outerConeAngle": 0.5}}
    g.json["extensions"] = {"KHR_lights_punctual": {"lights": [light]}}
    g.node(extensions={"KHR_lights_punctual": {"light": 0}})
    g.json["extensionsUsed"] = ["KHR_lights_punctual", "ACME_x"]
    animate(g, child)
    return g


def animate(g: Gltf, node: int) -> None:
    """All three interpolations, one of each property."""
    keys, turn = g.accessor([0, 1, 3]), [(0, 0, 0, 127), (0, 90, 0, 90), (127, 0, 0, 0)]
    moves = {
        "translation": ("CUBICSPLINE", g.accessor([(1, 2, 3), (0, 1, 0), (3, 2, 1)] * 3)),
        "rotation": ("LINEAR", g.accessor(turn, "i1", normalized=True)),
        "scale": ("STEP", g.accessor([(1, 1, 1), (2, 2, 2), (-1, 1, 1)])),
    }
    g.add(
        "animations",
        samplers=[
            {"input": keys, "output": values, "interpolation": rule} for rule, values in moves.values()
        ],
        channels=[{"sampler": n, "target": {"node": node, "path": path}} for n, path in enumerate(moves)],
    )


def places(value: Any) -> list[tuple[Any, Any]]:
    """(container, key) of every value in a JSON document."""
    found: list[tuple[Any, Any]] = []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        found += [(value, key), *places(inner)]
    return found


def sound_or_refused(load: Callable[[], Any], file: str) -> bool:
    """Whether it loaded. Anything but a sound result or one clear line fails the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # NumPy's about what it computed, Pillow's about what it allocates
        try:
            result = load()
        except (SceneInvalid, SceneUnsupported, AssetMissing) as error:
            message = str(error)
            assert ": " in message and "\n" not in message and len(message) < 500, message
            return False
    if isinstance(result, Scene):
        check_promises(result)
        check_scene(result, lambda step: None)
        assert all("\n" not in warning for warning in result.warnings)
    else:
        assert np.isfinite(result).all(), file
    return True


def loads_or_refused(entry: str, files: Memory) -> bool:
    return sound_or_refused(lambda: load_scene(entry, files, time=TIME, limits=LIMITS), entry)


def damaged(data: bytes, r: random.Random) -> bytes:
    """A few bytes flipped, cut out, doubled or replaced by digits."""
    changed = bytearray(data)
    for _ in range(r.choice((1, 1, 2, 5))):
        if not changed:
            break
        at = r.randrange(len(changed))
        match r.randrange(5):
            case 0:
                changed[at] ^= 1 << r.randrange(8)
            case 1:
                changed[at] = r.randrange(256)
            case 2:
                del changed[at : at + r.randrange(1, 9)]
            case 3:
                changed[at:at] = changed[at : at + r.randrange(1, 9)]
            case _:
                changed[at : at + 1] = r.choice(
                    (b"9", b"-1", b"nan", b"1e999", b"\n", b" ", b"/", b"\xff" * 4)
                )
    return bytes(changed)


def test_the_undamaged_scene_loads() -> None:
    g = rich()
    scene = g.load()
    assert (len(scene.meshes), len(scene.instances), len(scene.lights), len(scene.cameras)) == (2, 6, 1, 1)
    assert sound_or_refused(g.load, "s.glb")


@pytest.mark.parametrize("seed", range(8))
def test_values_of_gltf_replaced_or_removed(seed: int) -> None:
    r = random.Random(seed)
    g = rich()
    binary = bytes(g.data)
    g.json["buffers"] = [{"byteLength": len(binary), "uri": "b.bin"}]
    loaded = 0
    for _ in range(ROUNDS):
        document = copy.deepcopy(g.json)
        for _ in range(r.choice((1, 1, 2))):
            container, key = r.choice(places(document))
            if r.random() < 0.2:
                del container[key]
            else:
                container[key] = copy.deepcopy(r.choice(ODD))
        files = Memory(g.files | {"s.gltf": json.dumps(document).encode(), "b.bin": binary})
        loaded += loads_or_refused("s.gltf", files)
    assert 0 < loaded < ROUNDS


def picture(kind: str, mode: str) -> bytes:
    stream = io.BytesIO()
    Image.effect_noise((12, 10), 50).convert(mode).save(stream, kind)
    return stream.getvalue()


OBJ = b"mtllib m.mtl\nv 0 0 0 1 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nv .5 .5 0\nvt 0 0\nvt 1 0 0\nvn 0 0 1\n"
OBJ += b"usemtl a\nf 1/1/1 2/2/1 3/1/1\nf -5 -4 -3 -2 -1\nf 1//1 2//1 \\\n3//1 4//1\nl 1 2\n"
MTL = b"newmtl a\nKd 0.5 0.5 0.5\nKe 1 1 1\nNs 10\nd 0.5\nmap_Kd -s 1 1 t.png\nillum 2\n"
COLORED = XYZ + "property uchar red\nproperty uchar green\nproperty uchar blue\n"


def cases() -> dict[str, tuple[str, Memory]]:
    """Files to damage, by a name: which of them, and all of them."""
    g = rich()
    image = png(np.arange(48, dtype=np.uint8).reshape(4, 4, 3))
    found = {"glb": ("s.glb", Memory(g.files | {"s.glb": g.glb()}))}
    for kind, mode in (
        ("PNG", "L"),
        ("PNG", "P"),
        ("PNG", "LA"),
        ("PNG", "I;16"),
        ("JPEG", "RGB"),
        ("JPEG", "CMYK"),
    ):
        files = Memory({"s.glb": g.glb(), "t.png": picture(kind, mode)})
        found[f"{kind} {mode}"] = ("t.png", files)
    objs = Memory({"s.obj": OBJ, "m.mtl": MTL, "t.png": image})
    found |= {"obj": ("s.obj", objs), "mtl": ("m.mtl", objs)}
    for kind in FORMATS:
        square = [(x, y, 0, 9, 99, 255) for x, y in ((0, 0), (1, 0), (1, 1), (0, 1))]
        data = ply(kind, [[0, 1, 2], [0, 1, 2, 3]], square, COLORED)
        found[kind] = ("s.ply", Memory({"s.ply": data}))
    rgbe = np.full((4, 9, 4), 130, np.uint8)
    found["hdr in runs"] = ("e.hdr", Memory({"e.hdr": hdr(9, 4, b"".join(map(run_length, rgbe)))}))
    found["hdr"] = ("e.hdr", Memory({"e.hdr": hdr(4, 9, rgbe.tobytes())}))
    found["npy"] = ("e.npy", Memory({"e.npy": npy(SKY)}))
    return found


CASES = cases()
ENTRIES = ("s.glb", "s.obj", "s.ply", "e.hdr", "e.npy")


@pytest.mark.parametrize("case", CASES)
def test_bytes_flipped_removed_and_doubled(case: str) -> None:
    target, files = CASES[case]
    entry = next(name for name in ENTRIES if name in files)
    r = random.Random(case)
    for _ in range(ROUNDS):
        changed = Memory(files | {target: damaged(files[target], r)})
        if entry.startswith("e."):
            sound_or_refused(lambda f=changed: load_environment(entry, f, LIMITS), entry)  # type: ignore[misc]
        else:
            loads_or_refused(entry, changed)
