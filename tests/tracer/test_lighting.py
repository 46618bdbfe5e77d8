"""Lights and furnaces, where the answer is known in closed form."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.tracer.worlds import (
    Image,
    channels,
    constant_sky,
    facing_quad,
    is_white,
    lambert,
    look,
    picture,
    quad,
    sphere,
    square_lamp,
    world,
)
from tracer.scene import (
    Environment,
    Light,
    LightKind,
    Material,
    Texture,
    TextureUse,
)


def center(image: np.ndarray) -> np.ndarray:
    h, w = image.shape[:2]
    return np.asarray(image[h // 2 - 2 : h // 2 + 2, w // 2 - 2 : w // 2 + 2].mean(axis=(0, 1)))


def test_a_point_light_on_a_lambert_plane() -> None:
    """L = albedo / pi * I cos / r^2, in each pixel."""
    albedo, intensity, position = (0.8, 0.5, 0.2), (10.0, 8.0, 6.0), np.array([0.2, 0.1, 1.5])
    scene = world(
        [facing_quad(half=4.0)],
        [lambert(*albedo)],
        lights=(Light(LightKind.POINT, intensity, tuple(position)),),
        camera=look((0.0, 0.0, 3.0), fov=30.0),
    )
    image = picture(scene, samples=256, max_depth=2)
    tan = math.tan(math.radians(15.0))
    grid = ((np.arange(16 * 8) + 0.5) / 64 - 1.0) * tan * 3.0
    x, y = np.meshgrid(grid, -grid)
    to_light = position - np.stack([x, y, np.zeros_like(x)], axis=-1)
    r2 = (to_light**2).sum(axis=-1)
    irradiance = (to_light[..., 2] / np.sqrt(r2) / r2).reshape(16, 8, 16, 8).mean(axis=(1, 3))
    expected = irradiance[..., None] * np.array(albedo) * np.array(intensity) / np.pi
    np.testing.assert_allclose(image, expected, rtol=2e-3)


def test_a_directional_light_is_given_by_its_irradiance() -> None:
    c = math.cos(0.5)
    light = Light(LightKind.DIRECTIONAL, (2.0, 3.0, 4.0), direction=(math.sin(0.5), 0.0, -c))
    image = picture(world([facing_quad(half=9.0)], [lambert(0.5, 0.5, 0.5)], lights=(light,)), max_depth=2)
    np.testing.assert_allclose(center(image), np.array([2.0, 3.0, 4.0]) * c * 0.5 / np.pi, rtol=1e-6)


@pytest.mark.parametrize("angle", [0.0, 0.2, 0.3, 0.4, 0.6])
def test_the_falloff_of_a_spot_is_gltfs(angle: float) -> None:
    """saturate(cos * scale + offset)^2 between the inner and the outer angle."""
    direction = (math.sin(angle), 0.0, -math.cos(angle))
    light = Light(
        LightKind.SPOT, (1.0, 1.0, 1.0), (0.0, 0.0, 2.0), direction, inner_angle=0.25, outer_angle=0.5
    )
    image = picture(
        world([facing_quad(half=0.02)], lights=(light,), camera=look((0.0, 0.0, 0.1), fov=5.0)), max_depth=2
    )
    k = 1.0 / max(0.001, math.cos(0.25) - math.cos(0.5))
    falloff = min(max(math.cos(angle) * k - math.cos(0.5) * k, 0.0), 1.0) ** 2
    np.testing.assert_allclose(center(image), falloff / 4.0 / np.pi, rtol=1e-3, atol=1e-9)


def irradiance_of_square(height: float, half: float) -> float:
    """Of unit radiance, at the foot of its axis. Four times Lambert's formula for a corner."""
    a = half / math.sqrt(half**2 + height**2)
    return 4.0 * a * math.atan(half / math.sqrt(half**2 + height**2))


@pytest.mark.parametrize("half", [0.05, 0.5, 3.0])
def test_an_area_light_and_both_ways_to_find_it(half: float) -> None:
    meshes, materials = square_lamp(1.0, half, 7.0)
    camera = look((0.15, 0.1, 0.2), fov=1.0)  # below the lamp
    scene = world(meshes, materials, camera=camera)
    image = picture(scene, samples=512, max_depth=2)
    expected = 7.0 * 0.6 / np.pi * irradiance_of_square(1.0, half)
    assert image.mean() == pytest.approx(expected, rel=0.01)


def test_a_single_sided_emitter_is_dark_behind_and_a_double_sided_one_is_not() -> None:
    meshes, materials = square_lamp(1.0, 0.5, 7.0)
    above = look((0.0, 0.0, 3.0), fov=2.0)
    assert (picture(world(meshes, materials, camera=above), max_depth=1) == 0.0).all()
    meshes, materials = square_lamp(1.0, 0.5, 7.0, double_sided=True)
    np.testing.assert_allclose(picture(world(meshes, materials, camera=above), max_depth=1), 7.0)
    # It lights a plane above it as much as the one below.
    meshes += [facing_quad(2.0, 8.0)]
    scene = world(meshes, materials, camera=look((0.1, 0.1, 1.5), (0.0, 0.0, 2.0), fov=1.0))
    expected = 7.0 * 0.6 / np.pi * irradiance_of_square(1.0, 0.5)
    assert picture(scene, samples=512, max_depth=2).mean() == pytest.approx(expected, rel=0.01)


def test_many_emitters_of_different_power_stay_unbiased() -> None:
    """The sum of lamps equals the lamps one by one."""
    lamps = [
        quad((x, 1, 1), (x, 1.2, 1), (x + 0.2, 1.2, 1), (x + 0.2, 1, 1), i + 1)
        for i, x in enumerate((-1, 0, 1))
    ]
    emitters = [lambert(0, 0, 0, emissive=e) for e in ((9.0, 0.1, 0.0), (0.0, 4.0, 0.1), (0.3, 0.3, 30.0))]
    floor, camera = facing_quad(half=4.0), look((0.0, -1.0, 2.0), fov=20.0)
    together = picture(
        world([floor, *lamps], [lambert(1, 1, 1), *emitters], camera=camera), 1024, max_depth=2
    )
    alone = np.zeros_like(together)
    for lamp in lamps:
        alone += picture(world([floor, lamp], [lambert(1, 1, 1), *emitters], camera=camera), 256, max_depth=2)
    np.testing.assert_allclose(together.mean(axis=(0, 1)), alone.mean(axis=(0, 1)), rtol=0.01)


def test_all_kinds_of_light_together_are_their_sum() -> None:
    """However often each kind is sampled: emitter, point light and a sky with a bright spot."""
    pixels = np.full((4, 8, 3), 0.1, np.float32)
    pixels[1, 3] = 20.0
    sky, point = Environment(pixels), Light(LightKind.POINT, (3.0, 2.0, 1.0), (1.0, 1.0, 1.5))
    (floor, lamp), materials = square_lamp(1.0, 0.3, 7.0)
    camera = look((0.0, -1.5, 0.8), fov=20.0)

    def of(**lights: Any) -> Image:
        meshes = [floor, lamp] if lights.pop("lamp") else [floor, replace(lamp, material=2)]
        scene = world(meshes, [*materials, lambert(0, 0, 0)], camera=camera, **lights)
        mean: Image = picture(scene, 1024, max_depth=2).mean(axis=(0, 1))
        return mean

    alone = of(lamp=True) + of(lamp=False, lights=(point,)) + of(lamp=False, environment=sky)
    np.testing.assert_allclose(of(lamp=True, lights=(point,), environment=sky), alone, rtol=0.01)


def test_an_emissive_texture_shines_as_its_mean() -> None:
    texels = np.zeros((2, 2, 4), np.uint8)
    texels[0, 0] = texels[1, 1] = 255
    meshes, materials = square_lamp(1.0, 0.5, 7.0, emissive_texture=TextureUse(0))
    lit = world(meshes, materials, textures=(Texture("checker", texels, linear_filter=False),))
    plain = world(meshes, square_lamp(1.0, 0.5, 3.5)[1])
    view: dict[str, Any] = {
        "samples": 1024,
        "max_depth": 2,
        "look_from": (0.0, -2.0, 0.9),
        "look_at": (0.0, 0.0, 0.0),
    }
    # Point by point the checker differs from its mean; the light over the plane does not.
    assert picture(lit, **view).mean() == pytest.approx(picture(plain, **view).mean(), rel=0.03)


@pytest.mark.parametrize("depth", [1, 2, 3, 8])
def test_a_white_furnace_stays_white(depth: int) -> None:
    """A convex white body under a white sky: depth 2 and more is 1 everywhere."""
    scene = world([sphere(2)], [lambert(1, 1, 1)], environment=constant_sky(1, 1, 1))
    image = picture(scene, samples=64, max_depth=depth)
    if depth == 1:
        assert image[8, 8].max() == 0.0
    else:
        is_white(image)


def test_between_two_white_plates_nothing_is_lost() -> None:
    """A furnace with interreflection: an open box, deep enough."""
    box = [
        facing_quad(),
        quad((-1, -1, 0), (-1, 1, 0), (-1, 1, 1), (-1, -1, 1)),
        quad((1, -1, 0), (1, -1, 1), (1, 1, 1), (1, 1, 0)),
    ]
    scene = world(box, [lambert(1, 1, 1)], environment=constant_sky(1, 2, 3))
    image = picture(scene, samples=512, max_depth=200)
    is_white(image / np.array([1.0, 2.0, 3.0]))


def sky_with(pixels: np.ndarray, **more: float) -> Environment:
    return Environment(pixels.astype(np.float32), **more)


@pytest.mark.parametrize("rotation", [0.0, 1.0])
def test_a_bright_sky_lights_a_plane_as_its_integral_says(rotation: float) -> None:
    """One bright texel: sampling by brightness, by the BSDF and by a numerical integral agree."""
    pixels = np.full((8, 16, 3), 0.05)
    pixels[3, 4] = (50.0, 20.0, 10.0)  # towards +X
    sky = sky_with(pixels, rotation=rotation)
    facing = quad((0, -1, -1), (0, 1, -1), (0, 1, 1), (0, -1, 1))  # its front looks along +X
    scene = world([facing], [lambert(1, 1, 1)], environment=sky, camera=look((3.0, 0.0, 0.0), fov=10.0))
    image = picture(scene, samples=1024, max_depth=2)
    n = 1024
    v, u = np.meshgrid((np.arange(n) + 0.5) / n, (np.arange(2 * n) + 0.5) / (2 * n), indexing="ij")
    sine = np.sin(v * np.pi)
    x = sine * np.sin(2 * np.pi * u)
    z = -sine * np.cos(2 * np.pi * u)
    world_x = math.cos(rotation) * x + math.sin(rotation) * z
    weight = np.maximum(world_x, 0.0) * sine * (np.pi / n) ** 2
    row, column = v * 8 - 0.5, u * 16 - 0.5
    r0, c0 = np.floor(row).astype(int), np.floor(column).astype(int)
    fr, fc = (row - r0)[..., None], (column - c0)[..., None]
    r = [np.clip(r0 + k, 0, 7) for k in (0, 1)]
    c = [(c0 + k) % 16 for k in (0, 1)]
    radiance = (pixels[r[0], c[0]] * (1 - fc) + pixels[r[0], c[1]] * fc) * (1 - fr)
    radiance += (pixels[r[1], c[0]] * (1 - fc) + pixels[r[1], c[1]] * fc) * fr
    expected = (radiance * weight[..., None]).sum(axis=(0, 1)) / np.pi
    np.testing.assert_allclose(image.mean(axis=(0, 1)), expected, rtol=0.005)


def test_the_environment_can_hide_and_still_light() -> None:
    scene = world([facing_quad(half=0.3)], [lambert(0.5, 0.5, 0.5)], environment=constant_sky(1, 1, 1))
    shown, hidden = (
        channels(scene, 256, max_depth=2),
        channels(scene, 256, max_depth=2, hide_environment=True),
    )
    assert shown["R"][0, 0] == 1.0
    assert hidden["R"][0, 0] == 0.0
    assert hidden["A"][0, 0] == 0.0
    np.testing.assert_allclose(hidden["R"][7:9, 7:9].mean(), 0.5, atol=5e-3)
    np.testing.assert_array_equal(hidden["A"], shown["A"])


@pytest.mark.parametrize("alpha", [0.05, 0.3, 1.0])
def test_metal_in_a_furnace_loses_only_what_single_scattering_loses(alpha: float) -> None:
    """Against the numerical albedo of the BRDF, at normal incidence."""
    metal = Material(base_color=(1, 1, 1, 1), metallic=1.0, roughness=math.sqrt(alpha))
    camera = look((0.0, 0.0, 3.0), fov=0.5)
    image = picture(
        world([facing_quad()], [metal], environment=constant_sky(1, 1, 1), camera=camera), 256, max_depth=2
    )
    n = 4000
    z = (np.arange(n) + 0.5) / n  # cosine of wi; h bisects
    h = np.sqrt((1 + z) / 2)
    a2 = alpha * alpha
    d = a2 / (np.pi * (h * h * (a2 - 1) + 1) ** 2)
    v = 1 / (z + np.sqrt(a2 + (1 - a2) * z * z)) / 2
    albedo = (d * v * z).sum() / n * 2 * np.pi
    assert image.mean() == pytest.approx(albedo, rel=0.005)
