"""What comes out of the path tracer where the answer is known in closed form."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.tracer.worlds import (
    NO_ENVIRONMENT,
    channels,
    constant_sky,
    facing_quad,
    film_of,
    lambert,
    look,
    picture,
    quad,
    sphere,
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
    Mesh,
    Texture,
    TextureUse,
    View,
    Wrap,
)

DOWN = (0.0, 0.0, -1.0)


def center(image: np.ndarray) -> np.ndarray:
    h, w = image.shape[:2]
    return np.asarray(image[h // 2 - 2 : h // 2 + 2, w // 2 - 2 : w // 2 + 2].mean(axis=(0, 1)))


# --- lights -------------------------------------------------------------------------------------------


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


def square_lamp(
    height: float, half: float, radiance: float, **more: Any
) -> tuple[list[Mesh], list[Material]]:
    """A lamp above the origin that shines down the -Z axis, and the plane below it."""
    h = half
    lamp = quad((-h, -h, height), (-h, h, height), (h, h, height), (h, -h, height), 1)
    emitter = lambert(0, 0, 0, emissive=(radiance,) * 3, **({"double_sided": False} | more))
    return [facing_quad(half=8.0), lamp], [lambert(0.6, 0.6, 0.6), emitter]


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


# --- environment and furnaces -------------------------------------------------------------------------


def is_white(image: np.ndarray) -> None:
    """1 everywhere, but for the noise of sampling the sky evenly and the cosine as well."""
    np.testing.assert_allclose(image, 1.0, atol=0.1)
    assert image.mean() == pytest.approx(1.0, abs=2e-3)


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


# --- paths --------------------------------------------------------------------------------------------


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


# --- surfaces -----------------------------------------------------------------------------------------

SKY: dict[str, Any] = {"environment": constant_sky(1, 1, 1)}
FRONTAL: dict[str, Any] = {"lights": (Light(LightKind.DIRECTIONAL, (np.pi,) * 3, direction=DOWN),)}
"""Lights a surface that faces +Z so that it shows its albedo exactly."""


def textured(texels: np.ndarray, **sampler: Any) -> np.ndarray:
    """The quad [-1, 1]^2 lit and seen straight on: each pixel is the filtered albedo."""
    material = lambert(1, 1, 1, base_color_texture=TextureUse(0))
    texture = Texture("t", texels, **({"linear_filter": False} | sampler))
    camera = look((0.0, 0.0, 1e4), fov=math.degrees(2 * math.atan(1e-4)))
    return picture(
        world([facing_quad()], [material], textures=(texture,), camera=camera, **FRONTAL), max_depth=2
    )


def test_row_0_of_a_texture_is_at_v_0_and_srgb_is_decoded() -> None:
    texels = np.zeros((2, 2, 4), np.uint8)
    texels[..., 3] = 255
    texels[0, 1, :3] = (255, 128, 0)  # u = 1, v = 0: lower right here
    image = textured(texels)
    np.testing.assert_allclose(image[12, 12], (1.0, ((128 / 255 + 0.055) / 1.055) ** 2.4, 0.0), atol=1e-6)
    assert image[4, 12].max() == image[12, 4].max() == image[4, 4].max() == 0.0


def test_more_than_8_bits_are_decoded_as_well() -> None:
    texels = np.full((1, 1, 4), 0.5, np.float32)
    np.testing.assert_allclose(textured(texels), ((0.5 + 0.055) / 1.055) ** 2.4, rtol=1e-6)


@pytest.mark.parametrize(("wrap", "left"), [(Wrap.REPEAT, 1.0), (Wrap.CLAMP, 0.0), (Wrap.MIRROR, 0.0)])
def test_wrapping(wrap: Wrap, left: float) -> None:
    """u from -1 to 1 over a picture that is dark on the left and bright on the right."""
    texels = np.zeros((1, 2, 4), np.uint8)
    texels[0, 1] = 255
    uv = np.array([[-1, 0], [1, 0], [1, 1], [-1, 1]], np.float32)
    material = lambert(1, 1, 1, base_color_texture=TextureUse(0))
    texture = Texture("t", texels, wrap_u=wrap, linear_filter=False)
    camera = look((0.0, 0.0, 1e4), fov=math.degrees(2 * math.atan(1e-4)))
    image = picture(
        world([facing_quad(uv0=uv)], [material], textures=(texture,), camera=camera, **FRONTAL), max_depth=2
    )
    by_quarter = image[8, [2, 6, 10, 14], 0]
    first = {Wrap.REPEAT: 0.0, Wrap.CLAMP: 0.0, Wrap.MIRROR: 1.0}[wrap]
    np.testing.assert_allclose(by_quarter, [first, left, 0.0, 1.0], atol=1e-6)


def test_bilinear_between_texel_centres() -> None:
    texels = np.zeros((1, 2, 4), np.float32)
    texels[0, 1] = 1.0
    image = textured(texels, linear_filter=True, wrap_u=Wrap.CLAMP)
    u = (np.arange(16 * 64) + 0.5) / (16 * 64)
    expected = np.clip(2 * u - 0.5, 0.0, 1.0).reshape(16, 64).mean(axis=1)
    np.testing.assert_allclose(image[8, :, 0], expected, atol=0.01)


def test_texture_transforms_and_the_second_set_of_coordinates() -> None:
    texels = np.zeros((1, 4, 4), np.uint8)
    texels[0, 3] = 255
    use = TextureUse(
        0, texcoord=1, transform=(0.0, 0.0, 0.875, 0.0, 0.0, 0.5)
    )  # everything to the last texel
    mesh = facing_quad(half=9.0, uv1=np.zeros((4, 2), np.float32))
    scene = world(
        [mesh], [lambert(1, 1, 1, base_color_texture=use)], textures=(Texture("t", texels),), **FRONTAL
    )
    np.testing.assert_allclose(picture(scene, max_depth=2), 1.0, atol=1e-6)


def test_vertex_colours_multiply() -> None:
    colors = np.tile(np.array([0.5, 0.25, 1.0, 1.0], np.float32), (4, 1))
    scene = world([facing_quad(half=9.0, colors=colors)], [lambert(1.0, 0.5, 0.25)], **FRONTAL)
    np.testing.assert_allclose(picture(scene, max_depth=2)[8, 8], (0.5, 0.125, 0.25), rtol=1e-6)


def test_smooth_normals_shade_and_flat_ones_do_not() -> None:
    light = Light(LightKind.DIRECTIONAL, (np.pi,) * 3, direction=DOWN)
    tilted = np.tile(np.array([0.6, 0.0, 0.8], np.float32) * 3.0, (4, 1))  # need not be unit
    for normals, expected in ((None, 1.0), (tilted, 0.8)):
        scene = world([facing_quad(half=9.0, normals=normals)], lights=(light,))
        np.testing.assert_allclose(picture(scene, max_depth=2), expected, rtol=1e-6)


def test_normals_follow_instances_as_normals_do() -> None:
    """Non-uniform scale: by the inverse transpose, also when it mirrors."""
    light = Light(LightKind.DIRECTIONAL, (np.pi,) * 3, direction=DOWN)
    normals = np.tile(np.array([0.6, 0.0, 0.8], np.float32), (4, 1))
    for sx in (2.0, -2.0):
        transform = np.diag([sx, 1.0, 1.0, 1.0])
        scene = world(
            [facing_quad(half=9.0, normals=normals)], lights=(light,), instances=(Instance(0, transform),)
        )
        n = np.array([0.6 / sx, 0.0, 0.8])
        np.testing.assert_allclose(picture(scene, max_depth=2), n[2] / np.linalg.norm(n), rtol=1e-6)


@pytest.mark.parametrize("with_tangents", [True, False])
def test_a_normal_texture_bends_towards_u_and_up(with_tangents: bool) -> None:
    """Red is along +u; green is up in the picture, which is where v falls."""
    n = np.array([0.48, 0.6, 0.64])
    texels = np.ones((1, 1, 4), np.float32)
    texels[0, 0, :3] = n / 2 + 0.5
    uv = np.array([[0, 1], [1, 1], [1, 0], [0, 0]], np.float32)  # the picture upright on the quad
    tangents = np.tile(np.array([1, 0, 0, 1], np.float32), (4, 1)) if with_tangents else None
    mesh = facing_quad(half=9.0, uv0=uv, tangents=tangents)
    materials = [lambert(1, 1, 1, normal_texture=TextureUse(0))]
    textures = (Texture("n", texels),)
    for axis in range(3):
        light = Light(
            LightKind.DIRECTIONAL, (np.pi,) * 3, direction=tuple((-(np.eye(3)[axis] + [0, 0, 1e-3])).tolist())
        )
        scene = world([mesh], materials, textures=textures, lights=(light,))
        np.testing.assert_allclose(picture(scene, max_depth=2), n[axis] + 1e-3 * n[2] * (axis < 2), rtol=3e-3)


# --- transparency -------------------------------------------------------------------------------------


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


# --- robustness ---------------------------------------------------------------------------------------


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
