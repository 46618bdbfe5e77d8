"""Which files belong to a scene, and that nothing else is opened."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.loaders.files import glb
from tracer.bundle import FolderFiles, list_bundle
from tracer.errors import AssetMissing, FileAbsent, SceneInvalid, SceneUnsupported
from tracer.references import map_references, material_libraries


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """scene/ with a few files, and a secret beside it."""
    (tmp_path / "secret.png").write_bytes(b"secret")
    scene = tmp_path / "scene"
    (scene / "pictures").mkdir(parents=True)
    for name in ("a.bin", "pictures/b c.png", "pictures/é#1.png", "t.png"):
        (scene / name).write_bytes(name.encode())
    return scene


def gltf(folder: Path, *uris: object, name: str = "s.gltf") -> Path:
    images = [{"uri": uri} for uri in uris]
    (folder / name).write_text(json.dumps({"asset": {"version": "2.0"}, "images": images}))
    return folder / name


def names(scene: Path, root: Path | None = None) -> list[str]:
    return [name for name, _ in list_bundle(scene, root).files]


def test_every_file_of_a_gltf_once_and_sorted(folder: Path) -> None:
    document = {
        "buffers": [{"uri": "a.bin", "byteLength": 5}, {"uri": "DATA:,x"}, {"byteLength": 3}],
        "images": [{"uri": "pictures/b%20c.png"}, {"uri": "./pictures//b c.png"}, {"bufferView": 0}],
    }
    expected = ["a.bin", "pictures/b c.png", "s.gltf"]
    (folder / "s.gltf").write_text(json.dumps(document))
    bundle = list_bundle(folder / "s.gltf")
    assert (bundle.entry, [name for name, _ in bundle.files]) == ("s.gltf", expected)
    assert all(path.is_absolute() and path.is_file() for _, path in bundle.files)
    (folder / "s.GLB").write_bytes(glb(json.dumps(document).encode(), b"123"))
    assert names(folder / "s.GLB") == ["a.bin", "pictures/b c.png", "s.GLB"]


def test_names_with_any_letters(folder: Path) -> None:
    assert "pictures/é#1.png" in names(gltf(folder, "pictures/%C3%A9%231.png"))
    assert "pictures/é#1.png" in names(gltf(folder, "pictures\\é#1.png"))
    assert names(gltf(folder, name="a scene 🎬.gltf")) == ["a scene 🎬.gltf"]


def test_the_working_folder_and_a_relative_path_do_not_matter(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = list_bundle(gltf(folder, "t.png"))
    monkeypatch.chdir(folder)
    assert list_bundle(Path("s.gltf")) == expected
    monkeypatch.chdir(folder / "pictures")
    assert list_bundle(Path("../s.gltf")) == expected


def test_a_wider_root_allows_more(folder: Path) -> None:
    scene = gltf(folder, "../secret.png")
    with pytest.raises(AssetMissing, match=r'^s\.gltf: images\[0\]\.uri: "../secret.png".*`--root DIR`'):
        list_bundle(scene)
    assert list_bundle(scene, folder.parent).entry == "scene/s.gltf"
    assert names(scene, folder.parent) == ["scene/s.gltf", "secret.png"]
    with pytest.raises(AssetMissing, match="`--root DIR`"):
        list_bundle(scene, folder / "pictures")


@pytest.mark.parametrize(
    "uri",
    [
        "../secret.png",
        "%2e%2e/secret.png",
        "..%2fsecret.png",
        "pictures/../../secret.png",
        "..\\secret.png",
        "{folder}/t.png",
        "file://{folder}/t.png",
        "http://127.0.0.1:9/t.png",
        "//127.0.0.1/t.png",
        "C:/t.png",
        "link.png",
        "away/secret.png",
    ],
)
def test_what_lies_outside_is_not_opened(uri: str, folder: Path) -> None:
    (folder / "link.png").symlink_to(folder.parent / "secret.png")
    (folder / "away").symlink_to(folder.parent)
    with pytest.raises(AssetMissing, match=r"^s\.gltf: images\[0\]\.uri: ") as caught:
        list_bundle(gltf(folder, uri.replace("{folder}", str(folder))))
    assert "\n" not in str(caught.value)


def test_links_inside_the_root_are_followed(folder: Path) -> None:
    (folder / "link.png").symlink_to("pictures/b c.png")
    bundle = list_bundle(gltf(folder, "link.png"))
    assert dict(bundle.files)["link.png"].read_bytes() == b"pictures/b c.png"


@pytest.mark.parametrize(
    "uri", ["missing.png", "t.png/x", "pictures", "x" * 5000, "loop.png", "pipe.png", ""]
)
def test_what_is_no_file_is_refused_by_name(uri: str, folder: Path) -> None:
    (folder / "loop.png").symlink_to("loop.png")
    os.mkfifo(folder / "pipe.png")
    with pytest.raises(AssetMissing, match=r"^s\.gltf: images\[0\]\.uri: ") as caught:
        list_bundle(gltf(folder, uri))
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("uri", [7, [], {}, True, "%ff.png"])
def test_a_uri_that_is_none_is_refused(uri: object, folder: Path) -> None:
    with pytest.raises(SceneInvalid, match=r"^s\.gltf: images\[0\]"):
        list_bundle(gltf(folder, uri))


@pytest.mark.parametrize("text", ["[]", "{", '{"images": {}}', '{"images": [1]}', "[" * 100_000, "\xff"])
@pytest.mark.parametrize("name", ["s.gltf", "s.glb"])
def test_a_malformed_scene_is_refused_in_one_line(text: str, name: str, folder: Path) -> None:
    data = text.encode("latin-1")
    (folder / name).write_bytes(data if name == "s.gltf" else glb(data, b""))
    with pytest.raises(SceneInvalid, match=rf"^{name}: ") as caught:
        list_bundle(folder / name)
    assert "\n" not in str(caught.value)


def test_scenes_that_are_not_there_or_of_another_kind(folder: Path) -> None:
    with pytest.raises(FileAbsent, match=r"missing\.gltf"):
        list_bundle(folder / "missing.gltf")
    with pytest.raises(SceneUnsupported, match=r"t\.png: not a scene"):
        list_bundle(folder / "t.png")
    (folder / "d.glb").mkdir()
    with pytest.raises(AssetMissing, match="not a regular file"):
        list_bundle(folder / "d.glb")


def test_an_obj_brings_its_mtl_and_its_pictures(folder: Path) -> None:
    (folder / "s.obj").write_text("mtllib my own.mtl sub/two.mtl gone.mtl\nmtllib my own.mtl\n")
    (folder / "my own.mtl").write_text(
        "newmtl a\nmap_Kd -s 2 2 2 -clamp on pictures\\b c.png\nmap_Bump no.png\n"
    )
    (folder / "sub").mkdir()
    (folder / "sub/two.mtl").write_text("newmtl b\nmap_Ks ../t.png\n")
    bundle = list_bundle(folder / "s.obj")
    expected = ["my own.mtl", "pictures/b c.png", "s.obj", "sub/two.mtl", "t.png"]
    assert [name for name, _ in bundle.files] == expected
    assert bundle.warnings == ('s.obj: line 1: material library "gone.mtl" is missing',)


@pytest.mark.parametrize(
    ("mtl", "found"),
    [
        ("newmtl a\nmap_Kd gone.png", r'^m\.mtl: line 2: map_kd: "gone\.png"'),
        ("newmtl a\nmap_Kd ../secret.png", r"^m\.mtl: line 2: map_kd: .*`--root DIR`"),
        ("newmtl a\nbump ../secret.png", r"^m\.mtl: line 2: bump: .*`--root DIR`"),
        ("newmtl a\nmap_Kd", r"^m\.mtl: line 2: map_kd: "),
    ],
)
def test_pictures_of_an_mtl_that_are_not_there_are_refused(mtl: str, found: str, folder: Path) -> None:
    (folder / "s.obj").write_text("mtllib m.mtl\n")
    (folder / "m.mtl").write_text(mtl)
    with pytest.raises(AssetMissing, match=found):
        list_bundle(folder / "s.obj")


@pytest.mark.parametrize("library", ["../m.mtl", "/m.mtl", "http://127.0.0.1:9/m.mtl"])
def test_an_mtl_outside_is_refused(library: str, folder: Path) -> None:
    (folder / "s.obj").write_text(f"v 0 0 0\nmtllib {library}\n")
    with pytest.raises(AssetMissing, match=r"^s\.obj: line 2: "):
        list_bundle(folder / "s.obj")


@pytest.mark.parametrize(
    ("rest", "name", "options"),
    [
        ("a.png", "a.png", ()),
        ("my wood.png", "my wood.png", ()),
        ("\ta#1.png", "a#1.png", ()),
        ("-bm 0.3 a.png", "a.png", ("-bm",)),
        ("-o 1 a.png", "a.png", ("-o",)),
        ("-o 1 2 3 -mm 0 1 a.png", "a.png", ("-o", "-mm")),
        ("-s 1 2.png", "2.png", ("-s",)),
        ("-s 1 1 1", "1", ("-s",)),
    ],
)
def test_options_stand_before_a_name(rest: str, name: str, options: tuple[str, ...]) -> None:
    (reference,) = map_references(f"newmtl a\n\tmap_Kd\t{rest}  # comment\n".encode())
    assert (reference.line, reference.key, reference.name, reference.options) == (2, "map_kd", name, options)


def test_names_of_libraries() -> None:
    assert material_libraries("a.mtl") == ["a.mtl"]
    assert material_libraries("a b.MTL c.mtl") == ["a b.MTL", "c.mtl"]
    assert material_libraries("odd name") == ["odd name"]


def test_a_folder_gives_only_what_is_in_it(folder: Path) -> None:
    files = FolderFiles(folder)
    assert files.read("t.png") == b"t.png"
    for path in ("../secret.png", str(folder.parent / "secret.png")):
        with pytest.raises(AssetMissing, match="lies outside"):
            files.read(path)
    with pytest.raises(FileAbsent, match="no such file"):
        files.read("gone.png")


def test_listing_a_bundle_needs_the_standard_library_only() -> None:
    code = "import sys, tracer.bundle; print({'numpy', 'numba', 'PIL'} & set(sys.modules))"
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("set()", "")
