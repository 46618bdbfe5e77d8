"""glTF: nodes, cameras, lights, instances, and which files are glTF 2.0 at all."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loaders.files import Gltf, Memory, glb
from tracer.errors import SceneInvalid, SceneUnsupported
from tracer.limits import Limits
from tracer.loaders import LONGEST_WARNING, MOST_WARNINGS, load_scene
from tracer.loaders.nodes import compose, multiply
from tracer.scene import LightKind

HALF = math.sqrt(0.5)


def place(gltf: Gltf, number: int = 0) -> list[list[float]]:
    rows: list[list[float]] = gltf.load().instances[number].transform.tolist()
    return rows


def test_translation_rotation_and_scale_act_in_that_order() -> None:
    g = Gltf()
    g.show(g.primitive(), translation=[10, 0, 0], rotation=[0, 0, 2 * HALF, 2 * HALF], scale=[2, 3, 4])
    # x goes to 2y, y to -3x, z to 4z; the quaternion need not be unit.
    expected = [[0, -3, 0, 10], [2, 0, 0, 0], [0, 0, 4, 0], [0, 0, 0, 1]]
    assert place(g) == pytest.approx(np.array(expected))


def test_a_matrix_is_given_by_columns() -> None:
    g = Gltf()
    g.show(g.primitive(), matrix=[1, 0, 0, 0, 0, 0, -1, 0, 0, 1, 0, 0, 5, 6, 7, 1])
    assert place(g) == [[1, 0, 0, 5], [0, 0, 1, 6], [0, -1, 0, 7], [0, 0, 0, 1]]


def test_children_follow_their_parents() -> None:
    g = Gltf()
    child = g.add("nodes", mesh=g.add("meshes", primitives=[g.primitive()]), translation=[1, 0, 0])
    g.node(children=[child], scale=[-2, 2, 2], translation=[0, 5, 0])
    assert place(g) == [[-2, 0, 0, -2], [0, 2, 0, 5], [0, 0, 2, 0], [0, 0, 0, 1]]


def test_nodes_come_in_the_order_of_the_file() -> None:
    g = Gltf()
    mesh = g.add("meshes", primitives=[g.primitive()])
    leaves = [g.add("nodes", mesh=mesh, translation=[x, 0, 0]) for x in (1, 2)]
    g.node(mesh=mesh, children=leaves)
    g.node(mesh=mesh, translation=[3, 0, 0])
    assert [i.transform[0, 3] for i in g.load().instances] == [0, 1, 2, 3]


@pytest.mark.parametrize("depth", [20_000])
def test_depth_harms_nothing(depth: int) -> None:
    g = Gltf()
    g.show(g.primitive())
    g.json["nodes"] = [{"children": [n + 1]} for n in range(depth)] + [{"mesh": 0}]
    assert len(g.load().instances) == 1


@pytest.mark.parametrize(
    "nodes",
    [
        [{"children": [0]}],
        [{"children": [1]}, {"children": [0]}],
        [{"children": [1, 1]}, {"mesh": 0}],
        [{"children": [1, 2]}, {"children": [2]}, {"mesh": 0}],
    ],
)
def test_cycles_and_shared_children_are_refused(nodes: list[dict[str, Any]]) -> None:
    g = Gltf()
    g.show(g.primitive())
    g.json["nodes"] = nodes
    with pytest.raises(SceneInvalid, match=r"nodes\[\d\]: is reached twice"):
        g.load()


@pytest.mark.parametrize(
    "node",
    [
        {"rotation": [0, 0, 0, 0]},
        {"rotation": [0, 0, 1]},
        {"translation": ["0", 0, 0]},
        {"scale": {"x": 1}},
        {"scale": [1e300, 1, 1]},
        {"matrix": [1.0] * 16},
        {"matrix": [True] * 16},
        {"children": [7]},
        {"children": [-1]},
        {"mesh": 1},
        {"mesh": 0.5},
        {"camera": 0},
        {"extensions": []},
        {"extensions": {"KHR_lights_punctual": {"light": 0}}},
    ],
)
def test_nodes_that_do_not_fit_are_refused(node: dict[str, Any]) -> None:
    g = Gltf()
    g.show(g.primitive())
    g.json["nodes"][0] |= node
    with pytest.raises(SceneInvalid, match=r"^s\.glb: nodes\[0\]\."):
        g.load()


def test_a_place_that_is_not_finite_is_refused() -> None:
    g = Gltf()
    g.show(g.primitive())
    g.json["nodes"] = [{"children": [n + 1], "scale": [1e38] * 3} for n in range(12)] + [{"mesh": 0}]
    with pytest.raises(SceneInvalid, match="its place in the world is not finite"):
        g.load()


def test_only_the_chosen_scene_is_shown_and_without_scenes_every_node() -> None:
    g = Gltf()
    g.show(g.primitive())
    g.json["scenes"].append({"nodes": []})
    g.json["scene"] = 1
    with pytest.raises(SceneInvalid, match="nothing to render"):
        g.load()
    del g.json["scenes"], g.json["scene"]
    g.json["nodes"] = [{"mesh": 0}, {"children": [0]}]
    scene = g.load()
    assert len(scene.instances) == 1
    assert "every node is shown" in scene.warnings[0]


def test_a_limit_of_nodes() -> None:
    g = Gltf()
    g.show(g.primitive())
    g.node()
    with pytest.raises(SceneUnsupported, match=r"nodes: 2; at most 1"):
        g.load(limits=Limits(nodes=1))


@given(st.lists(st.floats(-1, 1), min_size=4, max_size=4).filter(lambda q: sum(x * x for x in q) > 1e-3))
def test_a_quaternion_is_a_rotation(q: list[float]) -> None:
    matrix = compose((0.0, 0.0, 0.0), tuple(q), (1.0, 1.0, 1.0))
    assert multiply(matrix, matrix.T.copy()) == pytest.approx(np.eye(4), abs=1e-12)
    assert np.linalg.det(matrix) == pytest.approx(1.0)


def test_gpu_instances() -> None:
    g = Gltf()
    attributes = {
        "TRANSLATION": g.accessor([(1, 0, 0), (0, 2, 0)]),
        "SCALE": g.accessor([(1, 1, 1), (3, 3, 3)]),
    }
    extension = {"EXT_mesh_gpu_instancing": {"attributes": attributes}}
    g.show(g.primitive(), translation=[10, 0, 0], extensions=extension)
    first, second = (i.transform.tolist() for i in g.load().instances)
    assert first == [[1, 0, 0, 11], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    assert second == [[3, 0, 0, 10], [0, 3, 0, 2], [0, 0, 3, 0], [0, 0, 0, 1]]
    attributes["SCALE"] = g.accessor([(1, 1, 1)])
    with pytest.raises(SceneInvalid, match="differ in number"):
        g.load()
    attributes["SCALE"], attributes["ROTATION"] = g.accessor([(1, 1, 1)] * 2), g.accessor([(0, 0, 0, 0)] * 2)
    with pytest.raises(SceneInvalid, match="quaternion of length 0"):
        g.load()


def camera(**perspective: Any) -> Gltf:
    g = Gltf()
    g.show(g.primitive())
    g.add("cameras", type="perspective", perspective=perspective, name="lens")
    g.node(camera=0, translation=[0, 0, 5])
    return g


def test_cameras() -> None:
    g = camera(yfov=0.7, aspectRatio=1.5, znear=0.1)
    g.node(camera=0, name="left")
    found = g.load().cameras
    assert [(c.name, c.vertical_fov, c.aspect) for c in found] == [("lens", 0.7, 1.5), ("left", 0.7, 1.5)]
    assert found[0].transform[:3, 3].tolist() == [0, 0, 5]
    assert camera(yfov=0.7, znear=0.1).load().cameras[0].aspect is None


@pytest.mark.parametrize(
    "perspective",
    [{}, {"yfov": 0}, {"yfov": 3.15}, {"yfov": -1}, {"yfov": "1"}, {"yfov": 1, "aspectRatio": 0}],
)
def test_cameras_that_see_nothing_are_refused(perspective: dict[str, Any]) -> None:
    with pytest.raises(SceneInvalid, match=r"cameras\[0\]\.perspective\."):
        camera(**perspective).load()


def test_orthographic_cameras_are_skipped_aloud() -> None:
    g = camera(yfov=1)
    g.json["cameras"][0]["type"] = "orthographic"
    scene = g.load()
    assert scene.cameras == ()
    assert "orthographic camera 'lens' is skipped" in scene.warnings[0]
    g.json["cameras"][0]["type"] = "fisheye"
    with pytest.raises(SceneInvalid, match="neither perspective nor orthographic"):
        g.load()


def light(node: dict[str, Any] | None = None, **light: Any) -> Gltf:
    g = Gltf()
    g.show(g.primitive())
    g.json["extensions"] = {"KHR_lights_punctual": {"lights": [light]}}
    g.node(extensions={"KHR_lights_punctual": {"light": 0}}, name="lamp", **(node or {}))
    return g


def test_lights() -> None:
    g = light({"translation": [1, 2, 3], "scale": [1, 1, 9]}, type="point", color=[1, 0.5, 0], intensity=8)
    found = g.load().lights[0]
    assert (found.kind, found.intensity, found.position) == (LightKind.POINT, (8, 4, 0), (1, 2, 3))
    assert (found.direction, found.name) == ((0, 0, -1), "lamp")
    found = light({"rotation": [-HALF, 0, 0, HALF]}, type="directional").load().lights[0]
    assert (found.kind, found.intensity) == (LightKind.DIRECTIONAL, (1, 1, 1))
    assert found.direction == pytest.approx((0, -1, 0))
    found = light(type="spot", spot={"innerConeAngle": 0.2, "outerConeAngle": 0.5}).load().lights[0]
    assert (found.kind, found.inner_angle, found.outer_angle) == (LightKind.SPOT, 0.2, 0.5)
    assert light(type="spot").load().lights[0].outer_angle == pytest.approx(math.pi / 4)


def test_a_range_is_ignored_aloud() -> None:
    scene = light(type="point", range=5).load()
    assert "lights[0].range: ignored" in scene.warnings[0]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"type": "sun"},
        {"type": "point", "intensity": -1},
        {"type": "point", "color": [1, 1]},
        {"type": "point", "color": [1, -1, 1]},
        {"type": "spot", "spot": {"innerConeAngle": 0.5, "outerConeAngle": 0.5}},
        {"type": "spot", "spot": {"outerConeAngle": 2}},
    ],
)
def test_lights_that_do_not_fit_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(SceneInvalid, match=r"KHR_lights_punctual\.lights\[0\]"):
        light(**given).load()


@pytest.mark.parametrize(
    ("asset", "error"),
    [
        ({"version": "1.0"}, SceneUnsupported),
        ({"version": "3.0"}, SceneUnsupported),
        ({"version": "2.0", "minVersion": "2.1"}, SceneUnsupported),
        ({"version": "two"}, SceneInvalid),
        ({"version": 2.0}, SceneInvalid),
        ({}, SceneInvalid),
        (None, SceneInvalid),
        ("2.0", SceneInvalid),
    ],
)
def test_other_versions_are_refused(asset: Any, error: type[Exception]) -> None:
    g = Gltf()
    g.show(g.primitive())
    g.json["asset"] = asset
    with pytest.raises(error, match=r"^s\.glb: asset"):
        g.load()
    g.json["asset"] = {"version": "2.1", "minVersion": "2.0"}
    g.load()


@pytest.mark.parametrize(
    "name", ["KHR_draco_mesh_compression", "EXT_meshopt_compression", "KHR_texture_basisu", "ACME_x"]
)
def test_required_extensions_are_refused_by_name_and_optional_ones_named(name: str) -> None:
    g = Gltf()
    g.show(g.primitive())
    g.json["extensionsUsed"] = [name, "KHR_materials_ior"]
    assert [w for w in g.load().warnings if name in w] != []
    assert len(g.load().warnings) == 1
    g.json["extensionsRequired"] = [name]
    with pytest.raises(SceneUnsupported, match=name):
        g.load()


def test_skins_are_at_rest_aloud() -> None:
    g = Gltf()
    g.show(g.primitive(), skin=0)
    g.add("skins", joints=[0])
    assert "skinning is ignored" in " ".join(g.load().warnings)


def test_warnings_stay_few_and_short() -> None:
    g = Gltf()
    g.show(g.primitive())
    channels = [{"sampler": 0, "target": {"path": "weights"}}]
    names = ["long\n" * 1000, *(f"a{n}" for n in range(1000))]
    g.json["animations"] = [{"name": name, "channels": channels} for name in names]
    found = g.load().warnings
    assert len(found) == MOST_WARNINGS + 1
    assert f"{1001 - MOST_WARNINGS} more" in found[-1]
    assert all(len(w) <= LONGEST_WARNING + 3 and "\n" not in w for w in found)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{",
        b'{"asset":{"version":"2.0"},"x":NaN}',
        b'{"asset":{"version":"2.0"},"x":\xff}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"a":' + b"9" * 10_000 + b"}",
    ],
)
def test_what_is_no_json_object_is_refused_in_one_line(text: bytes) -> None:
    for name, data in (("s.gltf", text), ("s.glb", glb(text, b""))):
        with pytest.raises(SceneInvalid, match=rf"^{name}: ") as caught:
            load_scene(name, Memory({name: data}))
        assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


def test_glb_headers_that_do_not_fit_are_refused() -> None:
    g = Gltf()
    g.show(g.primitive())
    whole = g.glb()
    for end in range(len(whole)):
        found = "not a GLB file" if end < 12 else f"announces {len(whole)} bytes but the file has {end}"
        with pytest.raises(SceneInvalid, match=rf"^s\.glb: header: {found}"):
            load_scene("s.glb", Memory({"s.glb": whole[:end]}))
    load_scene("s.glb", Memory({"s.glb": whole + b"rest"}))
    other = bytearray(whole)
    other[4] = 1
    with pytest.raises(SceneInvalid, match="GLB version 1"):
        load_scene("s.glb", Memory({"s.glb": bytes(other)}))


def test_a_byte_order_mark_is_no_reason_to_refuse() -> None:
    g = Gltf()
    g.show(g.primitive())
    g.json["buffers"] = [{"uri": "d.bin", "byteLength": len(g.data)}]
    text = b"\xef\xbb\xbf" + json.dumps(g.json).encode()
    assert len(load_scene("s.gltf", Memory({"s.gltf": text, "d.bin": bytes(g.data)})).meshes) == 1


def test_other_kinds_of_files_are_refused() -> None:
    with pytest.raises(SceneUnsupported, match=r"s\.blend: .*\.gltf \.glb \.obj \.ply"):
        load_scene("s.blend", Memory())
