"""Small scenes made in code, and pictures of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tracer.build import PreparedScene, prepare
from tracer.film import new_film, resolve
from tracer.render import render_samples
from tracer.scene import (
    Camera,
    Environment,
    Instance,
    Light,
    LightKind,
    Material,
    Mesh,
    PixelRect,
    Scene,
    View,
)

Vec3 = tuple[float, float, float]
Image = NDArray[np.float64]

NO_ENVIRONMENT = Environment(np.zeros((1, 1, 3), np.float32))
DOWN = (0.0, 0.0, -1.0)
FRONTAL: dict[str, Any] = {"lights": (Light(LightKind.DIRECTIONAL, (np.pi,) * 3, direction=DOWN),)}
"""Lights a surface that faces +Z so that it shows its albedo exactly."""


def lambert(*rgb: float, **more: Any) -> Material:
    """Exactly c / pi: no specular layer, on both sides unless said otherwise."""
    return Material(
        base_color=(rgb[0], rgb[1], rgb[2], 1.0),
        **({"metallic": 0.0, "specular": 0.0, "double_sided": True} | more),
    )


def constant_sky(*rgb: float) -> Environment:
    return Environment(np.array(rgb, np.float32).reshape(1, 1, 3))


def quad(a: Vec3, b: Vec3, c: Vec3, d: Vec3, material: int = 0, **more: Any) -> Mesh:
    """Two triangles, counter-clockwise as seen from the front; uv (0,0) (1,0) (1,1) (0,1)."""
    uv = np.array([[0, 0], [1, 0], [1, 1], [0, 1]], np.float32)
    triangles = np.array([[0, 1, 2], [0, 2, 3]])
    return Mesh("quad", np.array([a, b, c, d], np.float64), triangles, material, **({"uv0": uv} | more))


def facing_quad(z: float = 0.0, half: float = 1.0, material: int = 0, **more: Any) -> Mesh:
    """A square in the plane z whose front looks along +Z."""
    return quad((-half, -half, z), (half, -half, z), (half, half, z), (-half, half, z), material, **more)


def sphere(subdivisions: int, material: int = 0, smooth: bool = False, radius: float = 1.0) -> Mesh:
    """An icosphere, fronts outside, inscribed in the sphere."""
    g = (1.0 + 5.0**0.5) / 2.0
    points = [(-1, g, 0), (1, g, 0), (-1, -g, 0), (1, -g, 0), (0, -1, g), (0, 1, g)]
    points += [(0, -1, -g), (0, 1, -g), (g, 0, -1), (g, 0, 1), (-g, 0, -1), (-g, 0, 1)]
    faces = [(0, 11, 5), (0, 5, 1), (0, 1, 7), (0, 7, 10), (0, 10, 11), (1, 5, 9), (5, 11, 4), (11, 10, 2)]
    faces += [(10, 7, 6), (7, 1, 8), (3, 9, 4), (3, 4, 2), (3, 2, 6), (3, 6, 8), (3, 8, 9), (4, 9, 5)]
    faces += [(2, 4, 11), (6, 2, 10), (8, 6, 7), (9, 8, 1)]
    vertices = [np.array(p, np.float64) / np.sqrt(1 + g * g) for p in points]
    for _ in range(subdivisions):
        middles: dict[tuple[int, int], int] = {}

        def middle(a: int, b: int, middles: dict[tuple[int, int], int] = middles) -> int:
            key = (min(a, b), max(a, b))
            if key not in middles:
                m = vertices[a] + vertices[b]
                middles[key] = len(vertices)
                vertices.append(m / np.sqrt((m * m).sum()))
            return middles[key]

        split = []
        for a, b, c in faces:
            ab, bc, ca = middle(a, b), middle(b, c), middle(c, a)
            split += [(a, ab, ca), (b, bc, ab), (c, ca, bc), (ab, bc, ca)]
        faces = split
    positions = np.array(vertices)
    normals = positions.astype(np.float32) if smooth else None
    return Mesh("sphere", positions * radius, np.array(faces), material, normals)


def look(origin: Vec3, target: Vec3 = (0.0, 0.0, 0.0), fov: float = 40.0) -> Camera:
    f = np.array(target) - np.array(origin)
    f /= np.sqrt((f * f).sum())
    up = np.array([0.0, 1.0, 0.0]) if abs(f[1]) < 0.99 else np.array([0.0, 0.0, -1.0])
    r = np.cross(f, up)
    r /= np.sqrt((r * r).sum())
    transform = np.eye(4)
    transform[:3] = np.stack([r, np.cross(r, f), -f, np.array(origin)], axis=1)
    return Camera("camera", transform, np.radians(fov))


SKY: dict[str, Any] = {"environment": constant_sky(1, 1, 1)}


def world(
    meshes: Sequence[Mesh],
    materials: Sequence[Material] = (lambert(1, 1, 1),),
    *,
    camera: Camera | None = None,
    environment: Environment | None = NO_ENVIRONMENT,
    **more: Any,
) -> Scene:
    """Each mesh once, where it is."""
    instances = tuple(Instance(i, np.eye(4)) for i in range(len(meshes)))
    return Scene(
        **(
            {
                "meshes": tuple(meshes),
                "materials": tuple(materials),
                "textures": (),
                "instances": instances,
                "cameras": (camera or look((0.0, 0.0, 3.0)),),
                "environment": environment,
            }
            | more
        )
    )


def film_of(prepared: PreparedScene, samples: int, tile: PixelRect | None = None) -> Image:
    tile = tile or PixelRect(0, 0, prepared.width, prepared.height)
    film = new_film(tile.width, tile.height)
    render_samples(prepared, film, tile, 0, samples)
    return film


def channels(scene: Scene, samples: int = 16, **view: Any) -> dict[str, NDArray[np.float32]]:
    """The resolved picture, 16x16 unless view says otherwise."""
    prepared = prepare(scene, View(**({"width": 16, "height": 16} | view)))
    return resolve(film_of(prepared, samples), samples)


def picture(scene: Scene, samples: int = 16, **view: Any) -> Image:
    """(height, width, 3) float64 radiance."""
    layers = channels(scene, samples, **view)
    return np.stack([layers[c] for c in "RGB"], axis=-1).astype(np.float64)


def square_lamp(
    height: float, half: float, radiance: float, **more: Any
) -> tuple[list[Mesh], list[Material]]:
    """A lamp above the origin that shines down the -Z axis, and the plane below it."""
    h = half
    lamp = quad((-h, -h, height), (-h, h, height), (h, h, height), (h, -h, height), 1)
    emitter = lambert(0, 0, 0, emissive=(radiance,) * 3, **({"double_sided": False} | more))
    return [facing_quad(half=8.0), lamp], [lambert(0.6, 0.6, 0.6), emitter]


def is_white(image: Image) -> None:
    """1 everywhere, but for the noise of sampling the sky evenly and the cosine as well."""
    np.testing.assert_allclose(image, 1.0, atol=0.1)
    assert image.mean() == pytest.approx(1.0, abs=2e-3)
