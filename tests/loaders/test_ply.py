"""PLY, in ASCII and both byte orders."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loaders.files import Memory
from tracer.errors import SceneInvalid
from tracer.loaders import load_scene
from tracer.scene import Scene

FORMATS = ("ascii", "binary_little_endian", "binary_big_endian")
SQUARE = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0)]
XYZ = "property float x\nproperty float y\nproperty float z\n"
CODES = {"float": "f", "double": "d", "uchar": "B", "int": "i", "ushort": "H", "char": "b", "uint": "I"}


def load(data: bytes) -> Scene:
    return load_scene("s.ply", Memory({"s.ply": data}))


def ply(
    kind: str,
    faces: list[list[int]],
    vertices: Any = SQUARE,
    properties: str = XYZ,
    *,
    list_types: str = "uchar int",
    name: str = "vertex_indices",
) -> bytes:
    """A file whose faces also carry a flag after their corners."""
    header = f"ply\nformat {kind} 1.0\ncomment made here\nelement vertex {len(vertices)}\n{properties}"
    header += (
        f"element face {len(faces)}\nproperty list {list_types} {name}\nproperty uchar flag\nend_header\n"
    )
    rows = [list(map(float, vertex)) for vertex in vertices]
    if kind == "ascii":
        lines = [" ".join(f"{x:g}" for x in row) for row in rows]
        lines += [" ".join(map(str, [len(face), *face, 7])) for face in faces]
        return (header + "\n".join(lines) + "\n").encode()
    order = "<" if kind == "binary_little_endian" else ">"
    codes = [CODES[line.split()[1]] for line in properties.strip().splitlines()]
    body = b""
    for row in rows:
        for code, value in zip(codes, row, strict=True):
            body += struct.pack(order + code, value if code in "fd" else int(value))
    length, corner = (CODES[t] for t in list_types.split())
    for face in faces:
        body += struct.pack(f"{order}{length}{len(face)}{corner}B", len(face), *face, 7)
    return header.encode() + body


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("list_types", ["uchar int", "uint uchar", "char ushort"])
def test_triangles_quads_and_both(kind: str, list_types: str) -> None:
    quad = [[0, 1, 2], [0, 2, 3]]
    for faces, expected in (
        ([[0, 1, 2], [2, 3, 0]], [[0, 1, 2], [2, 3, 0]]),
        ([[0, 1, 2, 3]], quad),
        ([[3, 2, 1], [0, 1, 2, 3], [1, 2, 3]], [[3, 2, 1], *quad, [1, 2, 3]]),
    ):
        mesh = load(ply(kind, faces, list_types=list_types)).meshes[0]
        assert mesh.triangles.tolist() == expected
        assert mesh.positions.tolist() == [list(corner) for corner in SQUARE]


@pytest.mark.parametrize("kind", FORMATS)
def test_normals_and_colours(kind: str) -> None:
    properties = XYZ.replace("float", "double")
    properties += "".join(f"property float n{axis}\n" for axis in "xyz")
    properties += "".join(f"property uchar {name}\n" for name in ("red", "green", "blue", "alpha"))
    vertices = [(*corner, 0, 0, 1, 0, 128, 255, 51) for corner in SQUARE]
    scene = load(ply(kind, [[0, 1, 2]], vertices, properties))
    mesh = scene.meshes[0]
    assert mesh.normals is not None and mesh.colors is not None
    assert mesh.normals[3].tolist() == [0, 0, 1]
    assert mesh.colors[0].tolist() == pytest.approx([0, 0.21586, 1, 0.2], abs=1e-5)  # sRGB decoded, not alpha
    assert scene.materials[0].base_color == (1, 1, 1, 1)


def test_float_colours_and_no_colours() -> None:
    properties = XYZ + "".join(f"property float {name}\n" for name in ("red", "green", "blue"))
    mesh = load(ply("ascii", [[0, 1, 2]], [(*c, 0, 0.5, 7) for c in SQUARE], properties)).meshes[0]
    assert mesh.colors is not None
    assert mesh.colors[0].tolist() == pytest.approx([0, 0.21404, 1, 1], abs=1e-5)
    assert load(ply("ascii", [[0, 1, 2]])).meshes[0].colors is None


def test_line_ends_of_every_kind_and_the_other_name_of_faces() -> None:
    data = ply("binary_little_endian", [[0, 1, 2]], name="vertex_index")
    head, _, body = data.partition(b"end_header\n")
    assert len(load(head.replace(b"\n", b"\r\n") + b"end_header\r\n" + body).meshes[0].triangles) == 1


def test_other_elements_are_passed_over() -> None:
    header = "ply\nformat ascii 1.0\nelement camera 1\nproperty float f\nproperty list uchar float m\n"
    header += f"element vertex 3\n{XYZ}element face 1\nproperty list uchar int vertex_indices\n"
    header += "element empty 5\nelement edge 1\nproperty int a\nend_header\n"
    data = (header + "7 3 1 2 3\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n9\n").encode()
    assert load(data).meshes[0].triangles.tolist() == [[0, 1, 2]]


def test_faces_of_two_corners_are_skipped_aloud() -> None:
    scene = load(ply("binary_big_endian", [[0, 1], [0, 1, 2], []]))
    assert scene.meshes[0].triangles.tolist() == [[0, 1, 2]]
    assert "2 faces of fewer than 3 corners" in scene.warnings[0]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("faces", [[[0, 1, 2], [1, 2, 3]], [[0, 1, 2], [0, 1, 2, 3]]])
def test_every_cut_off_file_is_refused(kind: str, faces: list[list[int]]) -> None:
    data = ply(kind, faces)
    for end in range(len(data) - (2 if kind == "ascii" else 0)):
        with pytest.raises(SceneInvalid, match=r"^s\.ply: "):
            load(data[:end])


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("element vertex 4", "element vertex 4000000000000"),
        ("element face 1", "element face 999999999999999"),
        ("element vertex 4", "element vertex -4"),
        ("element vertex 4", "element vertex 4.5"),
        ("float x", "quaternion x"),
        ("float y", "float x"),
        ("list uchar", "list float"),
        ("property float x\n", ""),
        (" 1.0", " 2.0"),
        ("format", "fomat"),
        ("element face", "element vertex"),
        ("end_header", "end"),
        ("ply", "PLY"),
        ("vertex_indices", "corners"),
    ],
)
def test_headers_that_do_not_fit_are_refused(kind: str, old: str, new: str) -> None:
    data = ply(kind, [[0, 1, 2]])
    changed = data.replace(old.encode(), new.encode(), 1)
    assert changed != data
    with pytest.raises(SceneInvalid, match=r"^s\.ply: ") as caught:
        load(changed)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("corner", [4, -1, 2**31 - 1])
def test_a_corner_out_of_range_is_refused_by_its_face(kind: str, corner: int) -> None:
    with pytest.raises(SceneInvalid, match=r"^s\.ply: face 1: there is no vertex .* among 4"):
        load(ply(kind, [[0, 1, 2], [0, corner, 2]]))


def test_a_corner_that_is_no_integer_is_refused() -> None:
    data = ply("ascii", [[0, 1, 2]], list_types="uchar float").replace(b"\n3 0 1 2", b"\n3 0 1 1.5")
    with pytest.raises(SceneInvalid, match=r"face 0: there is no vertex 1\.5"):
        load(data)


@pytest.mark.parametrize("kind", FORMATS)
def test_rows_that_cannot_be_there_are_refused_before_one_is_read(kind: str) -> None:
    data = ply(kind, [[0, 1, 2]]).replace(b"vertex 4", b"vertex 40")
    steps: list[str] = []
    with pytest.raises(SceneInvalid, match="40 rows are announced"):
        load_scene("s.ply", Memory({"s.ply": data}), progress=steps.append)
    assert "s.ply: reading vertex, 0 of 40" not in steps


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
@pytest.mark.parametrize("kind", FORMATS)
def test_what_is_not_finite_is_refused_by_its_vertex(value: float, kind: str) -> None:
    vertices = [*SQUARE[:3], (0, value, 0)]
    with pytest.raises(SceneInvalid, match=r"^s\.ply: vertex 3: x y z is not finite"):
        load(ply(kind, [[0, 1, 2]], vertices, XYZ.replace("float", "double")))


def test_a_file_without_faces_has_nothing_to_render() -> None:
    with pytest.raises(SceneInvalid, match="nothing to render"):
        load(ply("ascii", []))
    with pytest.raises(SceneInvalid, match="nothing to render"):
        load(ply("ascii", [[0, 1]]))


def test_words_among_the_numbers_are_refused() -> None:
    with pytest.raises(SceneInvalid, match=r"^s\.ply: in bytes"):
        load(ply("ascii", [[0, 1, 2]]).replace(b"\n1 0 0\n", b"\n1 zero 0\n"))


@given(
    st.lists(st.permutations(range(4)).flatmap(lambda p: st.integers(3, 4).map(lambda n: p[:n])), min_size=1)
)
def test_all_formats_say_the_same(faces: list[list[int]]) -> None:
    found = [load(ply(kind, faces)).meshes[0].triangles.tolist() for kind in FORMATS]
    assert found[0] == found[1] == found[2]
