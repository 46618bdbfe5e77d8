"""What a surface looks like: textures, vertex colours, normals, sides."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.tracer.worlds import (
    DOWN,
    FRONTAL,
    facing_quad,
    lambert,
    look,
    picture,
    world,
)
from tracer.scene import (
    Instance,
    Light,
    LightKind,
    Texture,
    TextureUse,
    Wrap,
)


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


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
def test_coordinates_that_are_none_read_some_texel(value: float) -> None:
    uv = np.full((4, 2), value, np.float32)
    texture = Texture("t", np.full((3, 2, 4), 255, np.uint8), wrap_u=Wrap.MIRROR, wrap_v=Wrap.CLAMP)
    material = lambert(1, 1, 1, base_color_texture=TextureUse(0))
    scene = world([facing_quad(half=9.0, uv0=uv)], [material], textures=(texture,), **FRONTAL)
    np.testing.assert_allclose(picture(scene, max_depth=2), 1.0, rtol=1e-6)


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
