"""The scenes that come with the project: the demo's and the tests'."""

from __future__ import annotations

from pathlib import Path

from tests.loaders.test_shared import check_promises, render
from tracer.bundle import FolderFiles, list_bundle
from tracer.loaders import load_scene

SCENES = Path(__file__).resolve().parents[2] / "scenes"


def test_the_still_life() -> None:
    path = SCENES / "still_life.glb"
    assert path.stat().st_size < 500_000
    scene = load_scene(path.name, FolderFiles(SCENES))
    check_promises(scene)
    render(scene)
    assert scene.warnings == () and len(scene.textures) == 1
    assert scene.cameras[0].aspect is not None
    assert abs(scene.cameras[0].aspect - 16 / 9) < 1e-6
    assert any(m.metallic == 1.0 for m in scene.materials) and any(
        max(m.emissive) > 1 for m in scene.materials
    )


def test_the_cornell_box_has_files_beside_it() -> None:
    bundle = list_bundle(SCENES / "cornell.gltf")
    assert [name for name, _ in bundle.files] == ["cornell.bin", "cornell.gltf", "cornell_checker.png"]
    scene = load_scene(bundle.entry, FolderFiles(SCENES))
    check_promises(scene)
    render(scene)
    assert scene.warnings == () and len(scene.cameras) == 1
