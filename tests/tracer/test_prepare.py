"""prepare: what is chosen where the scene or the view leave something open, and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.tracer.worlds import channels, constant_sky, facing_quad, lambert, look, sphere, world
from tracer.build import PreparedScene, prepare
from tracer.errors import SceneInvalid, SceneUnsupported, SettingsInvalid
from tracer.scene import (
    AlphaMode,
    Camera,
    Instance,
    Light,
    LightKind,
    Limits,
    Material,
    Scene,
    Texture,
    TextureUse,
    View,
)

LAMP = Light(LightKind.POINT, (1.0, 1.0, 1.0), (0.0, 0.0, 2.0))


def frame(prepared: PreparedScene) -> np.void:
    row: np.void = prepared.arrays.frame[0]
    return row


def said(prepared: PreparedScene, words: str) -> bool:
    return any(words in warning for warning in prepared.warnings)


# --- cameras and size ---------------------------------------------------------------------------------


def test_automatic_framing_holds_the_scene_from_azimuth_30_elevation_25() -> None:
    for width, height in ((400, 200), (200, 400)):
        p = prepare(world([sphere(2)], cameras=()), View(width=width, height=height))
        assert p.camera_name == "automatic"
        assert said(p, "no camera")
        o, f = frame(p)["origin"], frame(p)["forward"]
        distance = np.linalg.norm(o)
        assert math.degrees(math.asin(o[1] / distance)) == pytest.approx(25.0)
        assert math.degrees(math.atan2(o[0], o[2])) == pytest.approx(30.0)
        np.testing.assert_allclose(f, -o / distance, atol=1e-12)
        assert frame(p)["tan_y"] == pytest.approx(math.tan(math.radians(20.0)))
        # The narrower half angle touches the sphere.
        narrow = math.atan(min(frame(p)["tan_y"], frame(p)["tan_x"]))
        assert distance * math.sin(narrow) == pytest.approx(1.0, rel=1e-6)


def test_automatic_framing_of_a_z_up_scene() -> None:
    p = prepare(world([sphere(1)], cameras=()), View(up="z"))
    o = frame(p)["origin"]
    assert math.degrees(math.asin(o[2] / np.linalg.norm(o))) == pytest.approx(25.0)
    assert frame(p)["up"][2] > 0.5


@pytest.mark.parametrize(
    ("aspect", "view", "size"),
    [
        (None, View(), (1280, 720)),
        (2.0, View(), (1440, 720)),
        (0.5, View(), (360, 720)),
        (2.0, View(width=64, height=48), (64, 48)),
    ],
)
def test_the_size_of_the_picture(aspect: float | None, view: View, size: tuple[int, int]) -> None:
    camera = replace(look((0.0, 0.0, 3.0)), aspect=aspect)
    p = prepare(world([facing_quad()], camera=camera), view)
    assert (p.width, p.height) == size
    # The vertical angle is kept whatever the shape.
    assert frame(p)["tan_y"] == pytest.approx(math.tan(math.radians(20.0)))
    assert frame(p)["tan_x"] / frame(p)["tan_y"] == pytest.approx(size[0] / size[1])


def two_cameras() -> Scene:
    cameras = (replace(look((0.0, 0.0, 3.0)), name="front"), replace(look((3.0, 0.0, 0.0)), name="side"))
    return world([facing_quad()], cameras=cameras)


@pytest.mark.parametrize(
    ("wanted", "name"), [(None, "front"), ("side", "side"), ("1", "side"), ("0", "front")]
)
def test_a_camera_by_name_or_number(wanted: str | None, name: str) -> None:
    assert prepare(two_cameras(), View(camera=wanted)).camera_name == name


def test_a_camera_without_a_name_goes_by_its_number() -> None:
    cameras = tuple(replace(camera, name="") for camera in two_cameras().cameras)
    p = prepare(world([facing_quad()], cameras=cameras), View(camera="1"))
    assert p.camera_name == "1"
    np.testing.assert_allclose(frame(p)["origin"], (3, 0, 0))


@pytest.mark.parametrize("wanted", ["2", "top", ""])
def test_a_camera_that_is_not_there_is_refused_with_those_that_are(wanted: str) -> None:
    with pytest.raises(SettingsInvalid, match=r"0 'front', 1 'side'"):
        prepare(two_cameras(), View(camera=wanted))


def test_a_given_place_replaces_the_camera_and_an_angle_overrides_it() -> None:
    p = prepare(two_cameras(), View(look_from=(0.0, 0.0, 5.0), look_at=(0.0, 1.0, 0.0)))
    np.testing.assert_allclose(frame(p)["origin"], (0, 0, 5))
    np.testing.assert_allclose(frame(p)["forward"], np.array([0, 1, -5]) / math.sqrt(26))
    p = prepare(two_cameras(), View(vertical_fov_degrees=60.0))
    np.testing.assert_allclose(frame(p)["origin"], (0, 0, 3))
    assert frame(p)["tan_y"] == pytest.approx(math.tan(math.radians(30.0)))


def test_looking_straight_down_works() -> None:
    p = prepare(two_cameras(), View(look_from=(0.0, 5.0, 0.0), look_at=(0.0, 0.0, 0.0)))
    axes = np.array([frame(p)[k] for k in ("right", "up", "forward")])
    np.testing.assert_allclose(axes @ axes.T, np.eye(3), atol=1e-12)


def test_scale_and_shear_of_a_camera_do_not_matter() -> None:
    camera = look((0.0, 0.0, 3.0))
    skewed = camera.transform.copy()
    skewed[:3, 0] = skewed[:3, 0] * 3.0 + skewed[:3, 1]
    skewed[:3, 1:3] *= 0.01
    a, b = (
        prepare(world([facing_quad()], camera=c), View()) for c in (camera, replace(camera, transform=skewed))
    )
    for axis in ("right", "up", "forward"):
        np.testing.assert_allclose(frame(a)[axis], frame(b)[axis], atol=1e-12)


@pytest.mark.parametrize("value", [0.0, math.nan, math.inf])
def test_a_camera_that_looks_nowhere_is_refused(value: float) -> None:
    with pytest.raises(SceneInvalid, match="camera 'c'"):
        prepare(world([facing_quad()], camera=Camera("c", np.full((4, 4), value), 0.7)), View())


def test_an_aperture_needs_a_focus() -> None:
    with pytest.raises(SettingsInvalid, match="focus"):
        prepare(world([facing_quad()]), View(aperture_radius=0.1))


# --- light that the scene does not bring --------------------------------------------------------------

GLOWING = lambert(0.5, 0.5, 0.5, emissive=(1.0, 1.0, 1.0))


@pytest.mark.parametrize(
    ("change", "white"),
    [
        ({}, True),
        ({"lights": (LAMP,)}, False),
        ({"materials": (GLOWING,)}, False),
        ({"materials": (GLOWING,), "cameras": ()}, True),
        ({"lights": (LAMP,), "cameras": ()}, False),
        ({"environment": constant_sky(0, 0, 0)}, False),
        ({"environment": constant_sky(0, 0, 0), "materials": (GLOWING,), "cameras": ()}, False),
    ],
)
def test_a_plain_white_environment_where_nothing_is_meant_to_light(
    change: dict[str, Any], white: bool
) -> None:
    settings: dict[str, Any] = {"environment": None} | change
    p = prepare(world([facing_quad()], **settings), View())
    assert p.arrays.sky.pixels.ravel().tolist() == [float(white)] * 3
    assert said(p, "plain white environment") == white


# --- geometry -----------------------------------------------------------------------------------------


def test_geometry_is_rebased_and_keeps_its_digits() -> None:
    """Far from the origin float32 alone would keep seven digits of 1e6 and lose the mesh."""
    far = 1e6 + 1.0 / 3.0
    transform = np.eye(4)
    transform[:3, 3] = far
    camera = look((0.0, 0.0, 3.0))
    moved = camera.transform.copy()
    moved[:3, 3] += far
    lamp = replace(LAMP, position=(far, far, far + 2.0))
    near = channels(world([sphere(2)], lights=(LAMP,)), 16)
    there = channels(
        world(
            [sphere(2)],
            instances=(Instance(0, transform),),
            camera=replace(camera, transform=moved),
            lights=(lamp,),
        ),
        16,
    )
    np.testing.assert_allclose(there["R"], near["R"], rtol=1e-3, atol=1e-5)


def test_a_mirrored_instance_keeps_its_front() -> None:
    mirror = np.diag([-1.0, 1.0, 1.0, 1.0])
    material = lambert(1, 1, 1, double_sided=False)
    scene = world([facing_quad()], [material], instances=(Instance(0, mirror),), lights=(LAMP,))
    assert channels(scene, backfaces_black=True)["R"][8, 8] > 0.0
    turned = np.diag([-1.0, 1.0, -1.0, 1.0])  # half a turn: the back is seen
    scene = world([facing_quad()], [material], instances=(Instance(0, turned),), lights=(LAMP,))
    assert channels(scene, backfaces_black=True)["R"][8, 8] == 0.0


def test_instances_share_what_they_can() -> None:
    transforms = [np.diag([s, s, s, 1.0]) for s in (1.0, 2.0, 3.0)]
    p = prepare(world([facing_quad()], instances=tuple(Instance(0, t) for t in transforms)), View())
    assert len(p.arrays.geometry.triangles) == 6
    assert len(p.arrays.surfaces.uvs) == 4


def test_triangles_without_area_are_dropped_and_said() -> None:
    mesh = facing_quad()
    flat = replace(mesh, triangles=np.array([[0, 1, 2], [0, 0, 1], [1, 1, 1]]))
    p = prepare(world([flat]), View())
    assert len(p.arrays.geometry.triangles) == 1
    assert said(p, "2 triangles without area")


@pytest.mark.parametrize("scale", [0.0, 1e-200])
def test_nothing_to_see_renders_as_nothing(scale: float) -> None:
    flat = Instance(0, np.diag([scale, scale, scale, 1.0]))
    scene = world([facing_quad()], instances=(flat,), environment=constant_sky(1, 2, 3))
    layers = channels(scene)
    assert said(prepare(scene, View()), "nothing to see")
    assert (layers["G"] == 2.0).all()
    assert (layers["A"] == 0.0).all()
    assert (channels(replace(scene, instances=()))["G"] == 2.0).all()


def test_limits_are_kept_after_instances_are_expanded() -> None:
    scene = world([facing_quad()], instances=tuple(Instance(0, np.eye(4)) for _ in range(6)))
    prepare(scene, View(), limits=Limits(triangles=12))
    with pytest.raises(SceneUnsupported, match=r"12 triangles.*at most 11"):
        prepare(scene, View(), limits=Limits(triangles=11))


def test_places_that_are_not_finite_or_too_far_are_refused() -> None:
    for value in (math.nan, math.inf, 1e308):
        with pytest.raises(SceneInvalid, match="'quad'"):
            prepare(world([facing_quad(half=10.0)], instances=(Instance(0, np.full((4, 4), value)),)), View())
    with pytest.raises(SceneUnsupported, match="spans"):
        prepare(world([facing_quad(half=1e16)]), View())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"triangles": np.array([[0, 1, 4]])}, "not among its 4"),
        ({"triangles": np.array([[0, 1, -1]])}, "not among its 4"),
        ({"material": 1}, "no material 1"),
        ({"uv0": np.zeros((3, 2), np.float32)}, "uv0"),
        ({"normals": np.zeros((4, 2), np.float32)}, "normals"),
        ({"colors": np.zeros((4, 3), np.float32)}, "colors"),
    ],
)
def test_a_mesh_that_would_lead_a_kernel_astray_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(SceneInvalid, match=words):
        prepare(world([replace(facing_quad(), **change)]), View())


def test_references_to_nothing_are_refused() -> None:
    with pytest.raises(SceneInvalid, match="no texture 0"):
        prepare(world([facing_quad()], [lambert(1, 1, 1, normal_texture=TextureUse(0))]), View())
    with pytest.raises(SceneInvalid, match="mesh 1"):
        prepare(world([facing_quad()], instances=(Instance(1, np.eye(4)),)), View())
    empty = Texture("none", np.zeros((0, 4, 4), np.uint8))
    with pytest.raises(SceneInvalid, match="'none'"):
        prepare(world([facing_quad()], textures=(empty,)), View())


def test_what_is_approximated_is_said() -> None:
    mesh, texture = facing_quad(), Texture("t", np.full((1, 1, 4), 128, np.uint8))
    glass = Material(name="glass", transmission=1.0)
    assert said(prepare(world([mesh], [glass]), View()), "'glass': transmission")
    bumpy = Material(name="bumpy", normal_texture=TextureUse(0))
    assert said(prepare(world([mesh], [bumpy], textures=(texture,)), View()), "'bumpy': normal texture")
    tangents = np.tile(np.array([1, 0, 0, 1], np.float32), (4, 1))
    exact = world([replace(mesh, tangents=tangents)], [bumpy], textures=(texture,), warnings=("loader says",))
    assert prepare(exact, View()).warnings[0] == "loader says"
    assert not said(prepare(exact, View()), "normal texture")


# --- identity and progress ----------------------------------------------------------------------------


def test_the_hash_is_stable_and_sees_every_change() -> None:
    scene = world([facing_quad()], [lambert(0.5, 0.5, 0.5)], lights=(LAMP,))
    base = prepare(scene, View()).hash
    assert len(bytes.fromhex(base)) == 32
    assert prepare(scene, View()).hash == base
    moved = replace(scene.meshes[0], positions=scene.meshes[0].positions + np.array([0, 0, 1e-3]))
    changes = [
        (replace(scene, meshes=(moved,)), View()),
        (replace(scene, materials=(lambert(0.5, 0.5, 0.51),)), View()),
        (replace(scene, materials=(replace(scene.materials[0], alpha_mode=AlphaMode.BLEND),)), View()),
        (replace(scene, lights=(replace(LAMP, intensity=(1.0, 1.0, 2.0)),)), View()),
        (replace(scene, environment=constant_sky(0, 0, 1)), View()),
        (scene, View(seed=1)),
        (scene, View(frame=2)),
        (scene, View(max_depth=3)),
        (scene, View(width=10, height=10)),
        (scene, View(hide_environment=True)),
        (scene, View(backfaces_black=True)),
        (scene, View(vertical_fov_degrees=10.0)),
    ]
    hashes = {prepare(s, v).hash for s, v in changes}
    assert len(hashes) == len(changes)
    assert base not in hashes


def test_progress_may_stop_the_work_at_any_step() -> None:
    scene = world([sphere(3, smooth=True)], [GLOWING], environment=constant_sky(1, 1, 1))
    steps: list[str] = []
    prepare(scene, View(), steps.append)
    assert len(steps) > 10

    class Stopped(Exception):
        pass

    for at in range(len(steps)):
        left = [at]

        def stop(step: str, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise Stopped

        with pytest.raises(Stopped):
            prepare(scene, View(), stop)
