"""Files that nobody here wrote: real models load as their list says, malformed ones are refused by name."""

from __future__ import annotations

import re
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from tests.loaders.files import SHARED
from tracer.build import prepare
from tracer.bundle import FolderFiles, list_bundle
from tracer.errors import AssetMissing, FileAbsent, SceneInvalid, SceneUnsupported
from tracer.film import NONFINITE, new_film
from tracer.loaders import load_scene
from tracer.render import render_samples
from tracer.scene import PixelRect, Scene, View

pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="the test scenes are not in ../shared")

KINDS = (".gltf", ".glb", ".obj", ".ply")


def scenes(folder: str) -> list[str]:
    return sorted(p.relative_to(SHARED).as_posix() for p in (SHARED / folder).rglob("*") if p.suffix in KINDS)


def load(path: str) -> Scene:
    """As a worker does it: the bundle is listed, and nothing else is read."""
    bundle = list_bundle(SHARED / path)
    files = FolderFiles((SHARED / path).parent)
    listed = {name for name, _ in bundle.files}

    class Listed:
        def read(self, name: str) -> bytes:
            if name not in listed:
                raise FileAbsent(f"{name}: not in the bundle")
            return files.read(name)

    return load_scene(bundle.entry, Listed())


def triangles(scene: Scene) -> int:
    return sum(len(scene.meshes[i.mesh].triangles) for i in scene.instances)


def check_promises(scene: Scene) -> None:
    """What tracer.scene says of a Mesh."""
    for mesh in scene.meshes:
        count = len(mesh.positions)
        assert (mesh.positions.dtype, mesh.triangles.dtype) == (np.dtype("f8"), np.dtype("i8"))
        assert mesh.triangles.min() >= 0 and mesh.triangles.max() < count
        assert np.isfinite(mesh.positions).all()
        for values, width in (
            (mesh.normals, 3),
            (mesh.tangents, 4),
            (mesh.uv0, 2),
            (mesh.uv1, 2),
            (mesh.colors, 4),
        ):
            if values is not None:
                assert values.shape == (count, width) and values.dtype == np.float32
                assert np.isfinite(values).all()
        assert 0 <= mesh.material < len(scene.materials)
    for texture in scene.textures:
        assert texture.pixels.ndim == 3 and texture.pixels.shape[2] == 4


def render(scene: Scene) -> None:
    prepared = prepare(scene, View(width=16, height=9, max_depth=3))
    film = new_film(16, 9)
    render_samples(prepared, film, PixelRect(0, 0, 16, 9), 0, 2)
    assert np.isfinite(film).all()
    assert film[..., NONFINITE].sum() == 0


@pytest.mark.parametrize("path", scenes("models/gltf") + scenes("models/obj") + scenes("models/ply"))
def test_a_model_loads_and_renders(path: str) -> None:
    scene = load(path)
    check_promises(scene)
    render(scene)


COUNTS = {
    "BoxInterleaved.glb": 12,
    "CornellBox.glb": 36,
    "alien.glb": 292,
    "TwoCubes.glb": 24,
    "no_indices_3storybuilding.glb": 72,
    "Suzanne_256.glb": 3936,
    "02_shared_mesh/02_shared_mesh.gltf": 24,
    "Mesh_PrimitiveMode/Mesh_PrimitiveMode_04.gltf": 2,
    "Mesh_PrimitiveMode/Mesh_PrimitiveMode_05.gltf": 2,
    "SpheresScaledInstances/spheres_scaled_instances.gltf": 3 * 224,
}


@pytest.mark.parametrize("path", COUNTS)
def test_no_triangle_is_lost(path: str) -> None:
    assert triangles(load(f"models/gltf/{path}")) == COUNTS[path]


def test_what_models_hold_arrives() -> None:
    scene = load("models/gltf/CornellBox.glb")
    assert max(max(m.emissive) for m in scene.materials) > 1
    assert any(mesh.colors is not None for mesh in scene.meshes)
    scene = load("models/gltf/SimpleSparseAccessor/SimpleSparseAccessor.gltf")
    assert scene.meshes[0].positions[8].tolist() == [1, 2, 0]  # replaced by its sparse part
    scene = load("models/gltf/Cameras/Cameras.gltf")
    assert len(scene.cameras) == 1 and "orthographic" in scene.warnings[0]
    assert len(load("models/gltf/LitPlane.glb").lights) == 2
    scene = load("models/gltf/09_texture_transform/09_texture_transform.gltf")
    use = scene.materials[0].base_color_texture
    assert use is not None and use.transform != (1, 0, 0, 0, 1, 0)
    assert load("models/gltf/Suzanne_256.glb").meshes[0].tangents is not None
    scene = load("models/obj/joined_tetrahedra.obj")
    assert [len(mesh.positions) for mesh in scene.meshes] == [15]
    scene = load("models/obj/concave_polygon.obj")
    mesh = scene.meshes[0]
    a, b, c = (mesh.positions[mesh.triangles[:, k]] for k in range(3))
    assert (np.cross(b - a, c - a)[:, 0] < 0).all() or (np.cross(b - a, c - a)[:, 0] > 0).all()


@pytest.mark.parametrize(
    ("path", "extension"),
    [("Box_Draco.glb", "KHR_draco_mesh_compression"), ("BoxMeshopt.glb", "EXT_meshopt_compression")],
)
def test_compressed_models_are_refused_by_name(path: str, extension: str) -> None:
    with pytest.raises(SceneUnsupported, match=extension):
        load(f"models/gltf_unsupported/{path}")


ACCEPTED = {
    "missing_mtl.obj": "nope.mtl",
    "no_camera.gltf": "no camera",
    "notenoughindices.obj": "fewer than 3 corners",
    "ok_quad.glb": "",
    "ok_triangle.ply": "",
    "zero_area_all.glb": "no triangle has an area",
    "zero_scale_node.gltf": "no triangle has an area",
}
"""Files in bad_input that are no errors, and what is said about them."""

REFUSED = {
    "IndexOutOfRange.gltf": "IndexOutOfRange.bin",
    "RecursiveNodes.gltf": r"nodes\[0\]",
    "accessor_index_missing.gltf": "POSITION: 77",
    "asset_version_3.gltf": "glTF 3.0",
    "emissive_negative.gltf": "emissiveFactor",
    "index_out_of_range.obj": "line 4",
    "missing_bin.gltf": "missing.bin",
    "missing_texture.gltf": "does_not_exist.png",
    "nan_vertex.glb": "not finite",
    "no_faces.obj": "nothing to render",
    "no_scene.gltf": "nothing to render",
    "node_cycle.gltf": "reached twice",
    "path_traversal_texture.gltf": "lies outside",
    "png_bomb.gltf": "make it smaller",
    "required_extension_unknown.gltf": "ACME_shader",
    "texture_http_uri.gltf": "http://",
    "vertex_index_out_of_range.glb": "9999",
}
"""What a refusal has to name; of the other files it has to name the file."""


@pytest.mark.parametrize("path", [p for p in scenes("bad_input") if Path(p).name not in ACCEPTED])
def test_bad_input_is_refused_in_one_clear_line(path: str) -> None:
    name = Path(path).name
    tracemalloc.start()
    try:
        with pytest.raises((SceneInvalid, SceneUnsupported, AssetMissing)) as caught:
            load(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    message = str(caught.value)
    assert message.startswith(f"{name}: ") and "\n" not in message and len(message) < 400
    assert re.search(REFUSED.get(name, ""), message), message
    assert peak < 8 << 20, "memory for what is only announced"


@pytest.mark.parametrize("name", ACCEPTED)
def test_input_that_is_odd_but_no_error_renders(name: str) -> None:
    scene = load(f"bad_input/{name}")
    check_promises(scene)
    render(scene)
    prepared = prepare(scene, View(width=8, height=8))
    assert ACCEPTED[name] in " ".join(prepared.warnings)


def test_the_list_is_complete() -> None:
    """So that a file that was renamed is not passed over."""
    assert set(ACCEPTED) | set(REFUSED) <= {Path(p).name for p in scenes("bad_input")}
