"""OBJ and MTL."""

from __future__ import annotations

import numpy as np
import pytest

from tests.loaders.files import load_text, png
from tracer.errors import AssetMissing, SceneInvalid, SceneUnsupported
from tracer.scene import AlphaMode, Material

TRIANGLE = "v 0 0 0\nv 1 0 0\nv 0 1 0\n"
PICTURE = png(np.full((1, 1, 3), 9, np.uint8))


def material_of(mtl: str) -> Material:
    scene = load_text(f"mtllib m.mtl\n{TRIANGLE}usemtl a\nf 1 2 3\n", m_mtl=f"newmtl a\n{mtl}\n".encode())
    return scene.materials[0]


def test_faces_with_and_without_texture_coordinates_and_normals() -> None:
    scene = load_text(
        TRIANGLE + "vt 0.25 0.75\nvn 0 0 2\nf 1 2 3\nf 1/1 2/1 3/1\nf 1//1 2//1 3//1\nf 1/1/1 2/1/1 3/1/1\n"
    )
    assert [(m.uv0 is not None, m.normals is not None) for m in scene.meshes] == [
        (False, False),
        (True, False),
        (False, True),
        (True, True),
    ]
    full = scene.meshes[3]
    assert full.uv0 is not None and full.normals is not None
    assert full.uv0[0].tolist() == [0.25, 0.25]  # v runs up in the file, down in a picture
    assert full.normals[0].tolist() == [0, 0, 2]
    assert full.positions[full.triangles[0]].tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]


def test_a_corner_without_a_normal_makes_its_face_flat() -> None:
    assert load_text(TRIANGLE + "vn 0 0 1\nf 1//1 2//1 3\n").meshes[0].normals is None


def test_negative_numbers_count_back_from_the_newest() -> None:
    scene = load_text(TRIANGLE + "f -3 -2 -1\nv 5 5 5\nf -4 -3 -1\n")
    mesh = scene.meshes[0]
    first, second = mesh.positions[mesh.triangles].tolist()
    assert first == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
    assert second == [[0, 0, 0], [1, 0, 0], [5, 5, 5]]


def test_corners_are_shared_and_faces_keep_their_order() -> None:
    scene = load_text("v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nf 1 2 3 4\nf 3 2 1\n")
    mesh = scene.meshes[0]
    assert len(mesh.positions) == 4
    assert mesh.triangles.tolist() == [[0, 1, 2], [0, 2, 3], [2, 1, 0]]


def test_lines_go_on_after_a_backslash_and_end_at_a_comment() -> None:
    text = TRIANGLE.replace("v 1 0 0", "v 1 \\\r\n 0 \\\n 0 # one") + "\tf 1\\\n 2 3\r\n\r\n#f 9 9 9\n"
    assert load_text(text).meshes[0].positions.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]


def test_a_line_that_goes_on_is_named_by_its_first_line() -> None:
    with pytest.raises(SceneInvalid, match=r"^s\.obj: line 4: there is no vertex 9 among 3"):
        load_text(TRIANGLE + "f 1 \\\n 2 \\\n 9\n")


def test_colours_are_decoded_and_those_before_are_white() -> None:
    mesh = load_text("v 0 0 0\nv 1 0 0 0 0.5 1\nv 0 1 0 2 -1 1\nf 1 2 3\n").meshes[0]
    assert mesh.colors is not None
    assert mesh.colors[0].tolist() == [1, 1, 1, 1]
    assert mesh.colors[1].tolist() == pytest.approx([0, 0.21404114, 1, 1])
    assert mesh.colors[2].tolist() == [1, 0, 1, 1]
    assert load_text("v 0 0 0 1\nv 1 0 0 1\nv 0 1 0 1\nf 1 2 3\n").meshes[0].colors is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (TRIANGLE + "f 1 2 4\n", "line 4: there is no vertex 4 among 3"),
        (TRIANGLE + "f 1/1 2/1 3/1\n", "line 4: there is no texture coordinate 1 among 0"),
        (TRIANGLE + "f 1//2 2//1 3//1\nvn 0 0 1\n", "line 4: there is no normal 2 among 1"),
        (TRIANGLE + "f 0 1 2\n", "line 4: not a valid statement"),
        (TRIANGLE + "f -4 1 2\n", "line 4: not a valid statement"),
        (TRIANGLE + "f 1/2/3/4 1 2\n", "line 4: not a valid statement"),
        (TRIANGLE + "f 1.5 1 2\n", "line 4: not a valid statement"),
        (TRIANGLE + "f /1 1 2\n", "line 4: not a valid statement"),
        ("v 1 2\n", "line 1: not a valid statement"),
        ("v 1 2 x\n", "line 1: not a valid statement"),
        ("vn 1 2\n", "line 1: not a valid statement"),
        ("vt\n", "line 1: not a valid statement"),
        ("v nan 0 0\n" + TRIANGLE + "f 1 2 3\n", "v number 1 is not finite"),
        ("v 1e400 0 0\n" + TRIANGLE + "f 1 2 3\n", "v number 1 is not finite"),
        (TRIANGLE + "vt 1e39 0\nf 1/1 2/1 3/1\n", "vt number 1 is not finite"),
        (TRIANGLE + "vn 0 0 inf\nf 1//1 2//1 3//1\n", "vn number 1 is not finite"),
        (TRIANGLE, "nothing to render"),
        ("", "nothing to render"),
    ],
)
def test_what_does_not_fit_is_refused_by_its_line(text: str, found: str) -> None:
    with pytest.raises(SceneInvalid, match=rf"^s\.obj: {found}"):
        load_text(text)


def test_what_is_skipped_is_counted() -> None:
    scene = load_text(TRIANGLE + "o x\ng y\ns 1\nl 1 2\np 1\nl 2 3\nf 1 2\nfoo 3\nf 1 2 3\n")
    assert scene.warnings == (
        "s.obj: 2 lines are skipped",
        "s.obj: 1 points are skipped",
        "s.obj: 1 faces of fewer than 3 corners are skipped",
        "s.obj: 1 statements foo are skipped",
    )


def test_materials() -> None:
    m = material_of("Kd 0.1 0.2 3\nKe 5 6 7\nd 0.5\nNs 198 # hard\n")
    assert (m.base_color, m.emissive, m.alpha_mode) == ((0.1, 0.2, 1, 0.5), (5, 6, 7), AlphaMode.BLEND)
    assert m.roughness**2 == pytest.approx(0.1)  # alpha = sqrt(2 / (Ns + 2))
    assert (m.name, m.metallic, m.double_sided) == ("a", 0, True)
    assert material_of("Kd 0.5").base_color == (0.5, 0.5, 0.5, 1)
    assert material_of("Tr 0.25").base_color[3] == 0.75
    assert material_of("d 1").alpha_mode is AlphaMode.OPAQUE


def test_each_material_is_a_mesh_and_those_that_are_missing_are_grey_aloud() -> None:
    text = f"mtllib m.mtl\n{TRIANGLE}f 1 2 3\nusemtl my own\nf 1 2 3\nusemtl gone\nf 1 2 3\n"
    text += "usemtl my own\nf 3 2 1\n"
    scene = load_text(text, m_mtl=b"newmtl unused\nnewmtl my own\nKd 1 0 0\n")
    assert [len(m.triangles) for m in scene.meshes] == [1, 2, 1]
    assert [m.material for m in scene.meshes] == [0, 1, 2]
    assert [m.name for m in scene.materials] == ["default", "my own", "default"]
    assert scene.warnings == ('s.obj: there is no material "gone": shown grey',)


def test_textures_of_every_kind_once() -> None:
    for kind in ("PNG", "JPEG", "BMP", "TGA"):
        picture = png(np.full((2, 2, 3), 200, np.uint8), kind)
        mtl = b"newmtl a\nmap_Kd\tt.x\nmap_Ke -clamp on t.x # again\n"
        scene = load_text(f"mtllib m.mtl\n{TRIANGLE}usemtl a\nf 1 2 3\n", m_mtl=mtl, t_x=picture)
        assert len(scene.textures) == 1
        m = scene.materials[0]
        assert m.base_color_texture is not None and m.emissive_texture is not None
        assert scene.warnings == ("m.mtl: not rendered: map_Ke -clamp",)


def test_what_is_not_rendered_is_named_once() -> None:
    text = f"mtllib m.mtl\n{TRIANGLE}usemtl a\nf 1 2 3\n"
    mtl = b"newmtl a\nKs 1 1 1\nKa 1 1 1\nillum 2\nmap_Bump b.png\nnewmtl b\nKs 0 0 0\nKd xyz 1\n"
    assert load_text(text, m_mtl=mtl).warnings == ("m.mtl: not rendered: Ks, map_Bump, Kd",)


@pytest.mark.parametrize(
    ("mtl", "found"),
    [
        ("Kd 1 x 1", "line 2: .* are not numbers"),
        ("Kd", "line 2: .*numbers from 0 on"),
        ("Kd -1 0 0", "line 2: .*numbers from 0 on"),
        ("Ke nan nan nan", "line 2: .*numbers from 0 on"),
        ("Ns inf", "line 2: .*numbers from 0 on"),
        ("d", "line 2: .*numbers from 0 on"),
    ],
)
def test_an_mtl_that_does_not_fit_is_refused_by_its_line(mtl: str, found: str) -> None:
    with pytest.raises(SceneInvalid, match=rf"^m\.mtl: {found}"):
        material_of(mtl)


def test_an_mtl_that_begins_without_a_name_is_refused() -> None:
    with pytest.raises(SceneInvalid, match=r"^m\.mtl: line 1: .*before the first newmtl"):
        load_text(f"mtllib m.mtl\n{TRIANGLE}f 1 2 3\n", m_mtl=b"Kd 1 1 1\n")


@pytest.mark.parametrize("picture", ["gone.png", "../t.png", "/t.png"])
def test_a_picture_that_is_not_there_is_no_warning(picture: str) -> None:
    with pytest.raises(AssetMissing, match=r"^m\.mtl: line 2: map_kd: "):
        material_of(f"map_Kd {picture}")


def test_a_damaged_picture_is_refused_by_its_line() -> None:
    text = f"mtllib m.mtl\n{TRIANGLE}f 1 2 3\n"
    with pytest.raises(SceneInvalid, match=r'^m\.mtl: line 2: map_kd: "t\.png": not a readable'):
        load_text(text, m_mtl=b"newmtl a\nmap_Kd t.png\n", t_png=PICTURE[:40])


def test_a_missing_library_is_a_warning() -> None:
    scene = load_text(f"{TRIANGLE}mtllib gone.mtl\nf 1 2 3\n")
    assert scene.warnings == ('s.obj: line 4: material library "gone.mtl" is missing',)


def test_a_huge_concave_polygon_is_refused() -> None:
    star = [(1 + i % 2) * np.exp(2j * np.pi * i / 5000) for i in range(5000)]
    text = "".join(f"v {z.real} {z.imag} 0\n" for z in star) + "f " + " ".join(map(str, range(1, 5001)))
    with pytest.raises(SceneUnsupported, match="a concave face of 5000 corners"):
        load_text(text)
