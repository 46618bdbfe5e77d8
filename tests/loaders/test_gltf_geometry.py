"""glTF: accessors, primitives, and what is refused about them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.loaders.files import CORNERS, Gltf
from tracer.errors import SceneInvalid, SceneUnsupported
from tracer.limits import Limits
from tracer.scene import Scene

SQUARE = ((0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0))


def shown(*primitives: Any, gltf: Gltf) -> Scene:
    gltf.show(*primitives)
    return gltf.load()


def corners(scene: Scene) -> list[list[int]]:
    rows: list[list[int]] = scene.meshes[0].triangles.tolist()
    return rows


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4"])
def test_indices_of_every_width(dtype: str) -> None:
    g = Gltf()
    indices = g.accessor([2, 1, 0, 1, 2, 3], dtype)
    assert corners(shown(g.primitive(SQUARE, indices=indices), gltf=g)) == [[2, 1, 0], [1, 2, 3]]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (5, [[0, 1, 2], [1, 3, 2], [2, 3, 4]]),
        (6, [[1, 2, 0], [2, 3, 0], [3, 4, 0]]),
    ],
)
@pytest.mark.parametrize("indexed", [True, False])
def test_strips_and_fans(mode: int, expected: list[list[int]], indexed: bool) -> None:
    g = Gltf()
    more = {"indices": g.accessor([0, 1, 2, 3, 4], "u1")} if indexed else {}
    primitive = g.primitive([*SQUARE, (2, 2, 0)], mode=mode, **more)
    assert corners(shown(primitive, gltf=g)) == expected


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_points_and_lines_are_skipped_aloud(mode: int) -> None:
    g = Gltf()
    scene = shown(g.primitive(mode=mode), g.primitive(), gltf=g)
    assert len(scene.meshes) == 1
    assert "are skipped" in scene.warnings[0]


def test_interleaved_and_offset() -> None:
    g = Gltf()
    rows = np.arange(3 * 8, dtype="<f4").reshape(3, 8)
    view = g.view(b"\7\7\7\7" + rows.tobytes(), byteStride=32)
    shared = {"bufferView": view, "componentType": 5126, "count": 3}
    position = g.add("accessors", **shared, byteOffset=4, type="VEC3")
    normal = g.add("accessors", **shared, byteOffset=16, type="VEC3")
    uv = g.add("accessors", **shared, byteOffset=28, type="VEC2")
    attributes = {"POSITION": position, "NORMAL": normal, "TEXCOORD_0": uv}
    mesh = shown({"attributes": attributes}, gltf=g).meshes[0]
    assert mesh.normals is not None and mesh.uv0 is not None
    assert np.array_equal(mesh.positions, rows[:, :3])
    assert np.array_equal(mesh.normals, rows[:, 3:6])
    assert np.array_equal(mesh.uv0, rows[:, 6:8])
    assert [str(a.dtype) for a in (mesh.positions, mesh.normals)] == ["float64", "float32"]


@pytest.mark.parametrize("with_base", [True, False])
def test_sparse(with_base: bool) -> None:
    g = Gltf()
    sparse = {
        "count": 2,
        "indices": {"bufferView": g.view(np.array([1, 2], "<u2").tobytes()), "componentType": 5123},
        "values": {"bufferView": g.view(np.array([[5, 5, 5], [6, 7, 8]], "<f4").tobytes())},
    }
    position = g.accessor(CORNERS, sparse=sparse)
    if not with_base:
        del g.json["accessors"][position]["bufferView"]
    scene = shown({"attributes": {"POSITION": position}}, gltf=g)
    assert scene.meshes[0].positions.tolist() == [[0, 0, 0], [5, 5, 5], [6, 7, 8]]


@pytest.mark.parametrize("indices", [[2, 1], [1, 1], [1, 3]])
def test_sparse_indices_that_do_not_rise_or_exceed_are_refused(indices: list[int]) -> None:
    g = Gltf()
    sparse = {
        "count": 2,
        "indices": {"bufferView": g.view(np.array(indices, "<u2").tobytes()), "componentType": 5123},
        "values": {"bufferView": g.view(np.zeros((2, 3), "<f4").tobytes())},
    }
    with pytest.raises(SceneInvalid, match=r"sparse\.indices"):
        shown({"attributes": {"POSITION": g.accessor(CORNERS, sparse=sparse)}}, gltf=g)


def test_zeros_that_are_only_announced_are_not_made() -> None:
    g = Gltf()
    sparse = {
        "count": 1,
        "indices": {"bufferView": g.view(b"\0\0\0\0"), "componentType": 5125},
        "values": {"bufferView": g.view(b"\0" * 12)},
    }
    position = g.add("accessors", componentType=5126, count=1 << 40, type="VEC3", sparse=sparse)
    with pytest.raises(SceneInvalid, match="without a bufferView"):
        shown({"attributes": {"POSITION": position}}, gltf=g)


def test_quantized_positions_and_normals() -> None:
    g = Gltf()
    g.json["extensionsRequired"] = ["KHR_mesh_quantization"]
    positions = g.accessor([(0, 0, 0), (300, 0, 0), (0, -5, 0)], "i2")
    normals = g.accessor([(0, 0, 127), (-128, 0, 0), (-127, 0, 64)], "i1", normalized=True)
    mesh = shown({"attributes": {"POSITION": positions, "NORMAL": normals}}, gltf=g).meshes[0]
    assert mesh.positions.tolist() == [[0, 0, 0], [300, 0, 0], [0, -5, 0]]
    assert mesh.normals is not None
    assert mesh.normals.tolist() == [[0, 0, 1], [-1, 0, 0], [-1, 0, float(np.float32(64 / 127))]]


@pytest.mark.parametrize(
    ("values", "dtype", "normalized", "expected"),
    [
        ([(0.25, 0.5, 2.0)] * 3, "f4", False, [0.25, 0.5, 1.0, 1.0]),
        ([(0.25, -0.5, 1.0, 0.5)] * 3, "f4", False, [0.25, 0.0, 1.0, 0.5]),
        ([(0, 255, 51)] * 3, "u1", True, [0.0, 1.0, float(np.float32(0.2)), 1.0]),
        ([(0, 65535, 13107, 65535)] * 3, "u2", True, [0.0, 1.0, float(np.float32(0.2)), 1.0]),
    ],
)
def test_colours(values: Any, dtype: str, normalized: bool, expected: list[float]) -> None:
    g = Gltf()
    mesh = shown(g.primitive(COLOR_0=g.accessor(values, dtype, normalized=normalized)), gltf=g).meshes[0]
    assert mesh.colors is not None
    assert mesh.colors[0].tolist() == expected


def test_all_attributes_arrive() -> None:
    g = Gltf()
    attributes = {
        "NORMAL": g.accessor([(0, 0, 1)] * 3),
        "TANGENT": g.accessor([(1, 0, 0, -1)] * 3),
        "TEXCOORD_0": g.accessor([(0.1, 0.2)] * 3),
        "TEXCOORD_1": g.accessor([(0, 255)] * 3, "u1", normalized=True),
    }
    mesh = shown(g.primitive(**attributes), gltf=g).meshes[0]
    assert mesh.tangents is not None and mesh.uv1 is not None
    assert mesh.tangents[0].tolist() == [1, 0, 0, -1]
    assert mesh.uv1[0].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"count": 4}, r"accessors\[0\]\.count"),
        ({"count": 0}, r"accessors\[0\]\.count"),
        ({"count": 2.5}, r"accessors\[0\]\.count: not an integer"),
        ({"count": True}, r"accessors\[0\]\.count: not an integer"),
        ({"byteOffset": 4}, r"accessors\[0\]\.count"),
        ({"byteOffset": -4}, r"accessors\[0\]\.byteOffset"),
        ({"componentType": 5124}, r"accessors\[0\]\.componentType"),
        ({"componentType": 5125}, r"accessors\[0\]\.componentType"),
        ({"type": "VEC5"}, r"accessors\[0\]\.type"),
        ({"type": "VEC2"}, r"accessors\[0\]\.type"),
        ({"type": "MAT2"}, r"accessors\[0\]\.type"),
        ({"normalized": True}, r"accessors\[0\]\.normalized"),
        ({"bufferView": 1}, r"accessors\[0\]\.bufferView"),
        ({"bufferView": None}, r"accessors\[0\]\.bufferView"),
    ],
)
def test_what_does_not_fit_is_refused_by_its_place(change: dict[str, Any], where: str) -> None:
    g = Gltf()
    g.show(g.primitive())
    g.json["accessors"][0] |= change
    with pytest.raises(SceneInvalid, match=rf"^s\.glb: {where}"):
        g.load()


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"byteLength": 1 << 50}, r"bufferViews\[0\]\.byteLength"),
        ({"byteOffset": 1}, r"bufferViews\[0\]\.byteLength"),
        ({"byteLength": 0}, r"bufferViews\[0\]\.byteLength"),
        ({"byteStride": 8}, r"accessors\[0\]\.bufferView: has a byteStride of 8"),
        ({"byteStride": 14}, r"bufferViews\[0\]\.byteStride"),
        ({"byteStride": 256}, r"bufferViews\[0\]\.byteStride"),
        ({"buffer": 7}, r"bufferViews\[0\]\.buffer"),
        ({"buffer": "0"}, r"bufferViews\[0\]\.buffer"),
    ],
)
def test_views_that_do_not_fit_are_refused(change: dict[str, Any], where: str) -> None:
    g = Gltf()
    g.show(g.primitive())
    g.json["bufferViews"][0] |= change
    with pytest.raises(SceneInvalid, match=rf"^s\.glb: {where}"):
        g.load()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("attribute", ["NORMAL", "TANGENT", "TEXCOORD_0", "COLOR_0"])
def test_what_is_not_finite_is_refused(value: float, attribute: str) -> None:
    g = Gltf()
    values = np.zeros((3, {"NORMAL": 3, "TEXCOORD_0": 2}.get(attribute, 4)))
    values[1, 0] = value
    with pytest.raises(SceneInvalid, match=r"element 1 is not finite"):
        shown(g.primitive(**{attribute: g.accessor(values)}), gltf=g)


def test_an_index_out_of_range_is_refused() -> None:
    g = Gltf()
    with pytest.raises(SceneInvalid, match=r"its index 2 is 3, but there are 3 vertices"):
        shown(g.primitive(indices=g.accessor([0, 1, 3], "u1")), gltf=g)


@pytest.mark.parametrize(
    "primitive",
    [
        {"mode": 7},
        {"indices": "0"},
        {"material": 0},
        {"attributes": []},
        {"attributes": None},
        {"indices": 0},  # positions are no indices
    ],
)
def test_primitives_that_do_not_fit_are_refused(primitive: dict[str, Any]) -> None:
    g = Gltf()
    with pytest.raises(SceneInvalid, match=r"^s\.glb: (meshes\[0\]|accessors\[0\])"):
        shown(g.primitive() | primitive, gltf=g)


def test_counts_that_differ_are_refused() -> None:
    g = Gltf()
    with pytest.raises(SceneInvalid, match="2 values for 3 positions"):
        shown(g.primitive(NORMAL=g.accessor([(0, 0, 1)] * 2)), gltf=g)
    g = Gltf()
    with pytest.raises(SceneInvalid, match="no whole number of triangles"):
        shown(g.primitive(SQUARE), gltf=g)
    g = Gltf()
    with pytest.raises(SceneInvalid, match="have to be normalized"):
        shown(g.primitive(COLOR_0=g.accessor([(1, 2, 3)] * 3, "u1")), gltf=g)


def test_morph_targets_are_at_rest_aloud() -> None:
    g = Gltf()
    scene = shown(g.primitive(targets=[{"POSITION": 0}]), gltf=g)
    assert scene.meshes[0].positions.tolist() == [list(map(float, corner)) for corner in CORNERS]
    assert "morph targets are ignored" in scene.warnings[0]


def test_one_mesh_is_read_once() -> None:
    g = Gltf()
    number = g.show(g.primitive())
    g.node(mesh=g.json["nodes"][number]["mesh"], translation=[1, 2, 3])
    scene = g.load()
    assert (len(scene.meshes), [i.mesh for i in scene.instances]) == (1, [0, 0])


def test_a_limit_of_bytes() -> None:
    g = Gltf()
    g.show(g.primitive())
    with pytest.raises(SceneUnsupported, match="at most 10 are read"):
        g.load(limits=Limits(file_bytes=10))


def test_progress_may_stop_it() -> None:
    class Stopped(Exception):
        pass

    def stop(step: str) -> None:
        raise Stopped(step)

    g = Gltf()
    g.show(g.primitive())
    with pytest.raises(Stopped, match="accessors"):
        g.load(progress=stop)
