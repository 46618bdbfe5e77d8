"""Paths: their length, what they pass through, and that they stay sound at every scale."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.tracer.worlds import (
    DOWN,
    NO_ENVIRONMENT,
    SKY,
    channels,
    constant_sky,
    facing_quad,
    film_of,
    is_white,
    lambert,
    look,
    picture,
    quad,
    sphere,
    square_lamp,
    world,
)
from tracer import film as f
from tracer.build import prepare
from tracer.scene import (
    AlphaMode,
    Environment,
    Instance,
    Light,
    LightKind,
    Material,
    View,
)


def test_depth_counts_segments() -> None:
    """1 = what is seen to emit, 2 = direct light."""
    meshes, materials = square_lamp(1.0, 0.5, 7.0)
    below = look((0.0, 0.0, 0.5), (0.0, 0.0, 1.0), fov=10.0)
    np.testing.assert_allclose(picture(world(meshes, materials, camera=below), max_depth=1), 7.0)
    plane = look((0.0, -1.0, 0.5), fov=10.0)
    assert (picture(world(meshes, materials, camera=plane), max_depth=1) == 0.0).all()
    assert picture(world(meshes, materials, camera=plane), max_depth=2).min() > 0.1


def test_light_sampling_and_bsdf_sampling_agree_on_interreflection() -> None:
    """A corner lit by a point light: the second bounce against a numerical form-factor sum."""
    floor = quad((0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0))
    wall = quad((0, 0, 0), (0, 1, 0), (0, 1, 1), (0, 0, 1))
    light = Light(LightKind.POINT, (1.0, 1.0, 1.0), (0.8, 0.5, 0.9))
    camera = look((0.6, 0.5, 0.4), (0.5, 0.5, 0.0), fov=0.2)
    scene = world([floor, wall], [lambert(0.5, 0.5, 0.5)], lights=(light,), camera=camera)
    direct, both = (picture(scene, 2048, max_depth=d, width=2, height=2).mean() for d in (2, 3))
    x = np.array([0.5, 0.5, 0.0])
    n = 400
    y, z = np.meshgrid((np.arange(n) + 0.5) / n, (np.arange(n) + 0.5) / n)
    p = np.stack([np.zeros_like(y), y, z], axis=-1)
    to_light = np.array(light.position) - p
    lit = 0.5 / np.pi * to_light[..., 0] / ((to_light**2).sum(axis=-1) ** 1.5)
    to_x = x - p
    r2 = (to_x**2).sum(axis=-1)
    expected = (lit * to_x[..., 0] * -to_x[..., 2] / r2**2).sum() / n**2 * 0.5 / np.pi
    assert both - direct == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(
    ("backfaces_black", "double_sided", "expected"), [(False, False, 1), (True, False, 0), (True, True, 1)]
)
def test_backfaces(backfaces_black: bool, double_sided: bool, expected: float) -> None:
    scene = world(
        [facing_quad(half=9.0)],
        [lambert(1, 1, 1, double_sided=double_sided)],
        lights=(Light(LightKind.DIRECTIONAL, (np.pi,) * 3, direction=(0.0, 0.0, 1.0)),),
        camera=look((0.0, 0.0, -3.0)),
    )
    layers = channels(scene, max_depth=2, backfaces_black=backfaces_black)
    np.testing.assert_allclose(layers["R"], expected, atol=1e-6)
    np.testing.assert_allclose(layers["A"], 1.0)


def test_unlit_is_seen_as_its_colour_and_lights_nothing() -> None:
    """It ends the path: no light on it, and what it would reflect elsewhere is its colour alone."""
    unlit = Material(base_color=(0.3, 0.6, 0.9, 1.0), unlit=True)
    scene = world([facing_quad(half=9.0)], [unlit], environment=constant_sky(5, 5, 5))
    np.testing.assert_allclose(picture(scene), np.broadcast_to((0.3, 0.6, 0.9), (16, 16, 3)), rtol=1e-6)


def veil(alpha: float, mode: AlphaMode, **more: Any) -> Material:
    return Material(base_color=(0.0, 0.0, 0.0, alpha), alpha_mode=mode, metallic=0.0, specular=0.0, **more)


@pytest.mark.parametrize(
    ("mode", "alpha", "opacity"),
    [
        (AlphaMode.OPAQUE, 0.2, 1.0),
        (AlphaMode.MASK, 0.4, 0.0),
        (AlphaMode.MASK, 0.6, 1.0),
        (AlphaMode.BLEND, 0.3, 0.3),
    ],
)
def test_alpha_lets_camera_rays_and_light_through(mode: AlphaMode, alpha: float, opacity: float) -> None:
    """A black veil before a plane that a point light lights through the veil: (1 - a)^2 comes back."""
    light = Light(LightKind.DIRECTIONAL, (np.pi,) * 3, direction=DOWN)
    scene = world(
        [facing_quad(half=9.0), facing_quad(1.0, 9.0, 1)],
        [lambert(1, 1, 1), veil(alpha, mode)],
        lights=(light,),
    )
    layers = channels(scene, samples=1024, max_depth=2)
    assert layers["R"].mean() == pytest.approx((1.0 - opacity) ** 2, abs=0.005)
    np.testing.assert_array_equal(layers["A"], 1.0)


def test_a_veil_alone_is_as_opaque_as_its_alpha() -> None:
    scene = world([facing_quad(half=9.0)], [veil(0.3, AlphaMode.BLEND)], **SKY)
    layers = channels(scene, samples=1024, max_depth=2)
    assert layers["A"].mean() == pytest.approx(0.3, abs=0.005)
    assert layers["R"].mean() == pytest.approx(0.7, abs=0.005)


def test_each_veil_decides_for_itself() -> None:
    """Three half transparent ones let an eighth through; if they all did or none, it were a half."""
    veils = [facing_quad(0.1 * k, 9.0 + k) for k in range(3)]
    layers = channels(world(veils, [veil(0.5, AlphaMode.BLEND)], **SKY), samples=1024, max_depth=1)
    assert layers["R"].mean() == pytest.approx(0.125, abs=0.005)


def test_passing_through_is_no_segment() -> None:
    veils = [facing_quad(0.1 * (k + 1), 9.0, 1) for k in range(20)]
    scene = world(
        [facing_quad(half=9.0), *veils],
        [lambert(0, 0, 0, emissive=(1, 1, 1)), veil(0.0, AlphaMode.BLEND)],
        camera=look((0.0, 0.0, 5.0)),
    )
    np.testing.assert_allclose(picture(scene, max_depth=1), 1.0)


def test_a_half_transparent_emitter_gives_half_its_light_both_ways() -> None:
    """Found by light sampling or by chance, seen or not: emission is multiplied by opacity once."""
    for half in (0.1, 4.0):  # small: light sampling counts; large: the BSDF's
        meshes, solid = square_lamp(1.0, half, 7.0)
        _, thin = square_lamp(1.0, half, 7.0, alpha_mode=AlphaMode.BLEND)
        thin[1] = Material(**{**thin[1].__dict__, "base_color": (0.0, 0.0, 0.0, 0.5)})
        camera = look((0.15, 0.1, 0.2), fov=1.0)
        full, dim = (
            picture(world(meshes, m, camera=camera), 2048, max_depth=2, width=4, height=4).mean()
            for m in (solid, thin)
        )
        assert dim == pytest.approx(0.5 * full, rel=0.02)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
@pytest.mark.parametrize("shift", [0.0, 1e3])
def test_no_shadow_acne_at_any_scale_or_place(scale: float, shift: float) -> None:
    """A white furnace with interreflection; a self-shadowed ray would show as a darker pixel."""
    mesh = sphere(3)
    transform = np.diag([scale, scale, scale, 1.0])
    transform[:3, 3] = shift * scale
    camera = look((0.0, 0.0, 3.0))
    moved = camera.transform.copy()
    moved[:3, 3] = moved[:3, 3] * scale + shift * scale
    scene = world(
        [mesh],
        [lambert(1, 1, 1)],
        instances=(Instance(0, transform),),
        camera=type(camera)("c", moved, camera.vertical_fov),
        **SKY,
    )
    is_white(picture(scene, samples=64))


def test_a_sample_that_is_not_finite_is_counted_and_adds_nothing() -> None:
    pixels = np.ones((1, 1, 3), np.float32)
    pixels[0, 0, 1] = np.inf
    prepared = prepare(
        world([facing_quad()], [lambert(1, 1, 1)], environment=Environment(pixels)), View(width=8, height=8)
    )
    film = film_of(prepared, 4)
    corner = film[0, 0]
    assert corner[f.NONFINITE] == 4
    assert (np.delete(corner, f.NONFINITE) == 0.0).all()
    assert np.isfinite(film).all()


def test_the_layers_of_the_first_hit() -> None:
    scene = world(
        [facing_quad(half=0.4)],
        [lambert(0.5, 0.25, 0.125)],
        environment=NO_ENVIRONMENT,
        camera=look((0.0, 0.0, 3.0), fov=40.0),
    )
    layers = channels(scene, samples=16)
    np.testing.assert_allclose([layers[f"albedo.{c}"][8, 8] for c in "RGB"], (0.5, 0.25, 0.125))
    np.testing.assert_allclose([layers[f"normal.{c}"][8, 8] for c in "XYZ"], (0, 0, 1), atol=1e-7)
    np.testing.assert_allclose(layers["Z"][8, 8], 3.0, rtol=1e-6)  # along the view axis, also off the middle
    np.testing.assert_allclose(layers["Z"][6, 7], 3.0, rtol=1e-6)
    assert layers["Z"][0, 0] == float(f.NO_DEPTH)
    assert (layers["A"][0, 0], layers["A"][8, 8]) == (0.0, 1.0)


def test_a_thin_lens_is_sharp_in_its_focus_alone() -> None:
    """A thin bright line in and out of focus: its blur is aperture * |1 - z / focus| wide."""
    line = quad((-0.01, -5, 0), (0.01, -5, 0), (0.01, 5, 0), (-0.01, 5, 0))
    scene = world([line], [lambert(0, 0, 0, emissive=(1, 1, 1))], camera=look((0.0, 0.0, 3.0), fov=20.0))

    def width(focus: float, aperture: float = 0.2) -> float:
        image = picture(
            scene,
            samples=64,
            max_depth=1,
            width=128,
            height=128,
            aperture_radius=aperture,
            focus_distance=focus,
        )
        profile = image[..., 0].mean(axis=0)
        x = (np.arange(128) + 0.5 - 64) / 64 * math.tan(math.radians(10.0)) * 3.0
        return float(np.sqrt((profile * x**2).sum() / profile.sum()))

    assert width(3.0) == pytest.approx(width(1.0, 0.0), abs=0.001)
    # Through the disc's points the line at 3 is seen shifted by r (3 / focus - 1); its spread is half that.
    assert width(2.0) == pytest.approx(0.2 * (3.0 / 2.0 - 1.0) / 2.0, rel=0.03)
