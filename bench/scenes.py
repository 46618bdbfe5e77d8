"""The scenes that renderers are compared on. Each is what a file loader would leave behind, so that the peer
gets the same triangles, textures and lights. All are made here; nothing is read.

Materials keep to what both sides mean alike: Lambert (specular 0), metals, smooth glass, emitters. Surfaces
are closed or seen from their front.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scenes.shapes import Shape, box, joined, quad, sphere, torus
from tracer.scene import (
    Camera,
    Environment,
    Instance,
    Light,
    LightKind,
    Material,
    Mesh,
    Scene,
    Texture,
    TextureUse,
)

Vec3 = tuple[float, float, float]
Part = tuple[Shape, Material]


def lambert(r: float, g: float, b: float, texture: int | None = None) -> Material:
    use = None if texture is None else TextureUse(texture)
    return Material(
        base_color=(r, g, b, 1.0), base_color_texture=use, metallic=0.0, roughness=1.0, specular=0.0
    )


def lamp(*radiance: float) -> Material:
    r, g, b = radiance
    return Material(
        base_color=(0.0, 0.0, 0.0, 1.0), emissive=(r, g, b), metallic=0.0, roughness=1.0, specular=0.0
    )


WHITE, RED, GREEN = lambert(0.73, 0.73, 0.73), lambert(0.63, 0.06, 0.05), lambert(0.12, 0.45, 0.09)
GLASS = Material(metallic=0.0, roughness=0.0, ior=1.5, transmission=1.0, thickness=1.0)


def make_scene(
    parts: Iterable[Part],
    eye: Vec3,
    target: Vec3,
    degrees: float,
    *,
    smooth: bool = False,
    textures: tuple[Texture, ...] = (),
    lights: tuple[Light, ...] = (),
    environment: Environment | None = None,
) -> Scene:
    parts = list(parts)
    meshes = tuple(
        Mesh(
            f"part {number}",
            shape.positions.astype(np.float64),
            shape.triangles.astype(np.int64),
            number,
            normals=shape.normals.astype(np.float32) if smooth else None,
            uv0=shape.uv.astype(np.float32) if textures else None,
        )
        for number, (shape, _) in enumerate(parts)
    )
    return Scene(
        meshes=meshes,
        materials=tuple(material for _, material in parts),
        textures=textures,
        instances=tuple(Instance(number, np.eye(4)) for number in range(len(parts))),
        cameras=(Camera("camera", _look(eye, target), math.radians(degrees)),),
        lights=lights,
        # Black, not None: a scene without any light would be given a white one.
        environment=environment or Environment(np.zeros((1, 1, 3), np.float32)),
    )


def _look(eye: Vec3, target: Vec3) -> NDArray[np.float64]:
    back = np.subtract(eye, target)
    back = back / np.linalg.norm(back)
    right = np.cross((0.0, 1.0, 0.0), back)
    right = right / np.linalg.norm(right)
    matrix = np.eye(4)
    matrix[:3, 0], matrix[:3, 1], matrix[:3, 2], matrix[:3, 3] = right, np.cross(back, right), back, eye
    return matrix


def _room() -> list[Part]:
    """Open towards +Z, from -1 to 1."""
    white = [
        quad((-1, -1, 1), (1, -1, 1), (-1, -1, -1)),  # floor
        quad((-1, 1, -1), (1, 1, -1), (-1, 1, 1)),  # ceiling
        quad((-1, -1, -1), (1, -1, -1), (-1, 1, -1)),  # back
    ]
    left, right = quad((-1, -1, 1), (-1, -1, -1), (-1, 1, 1)), quad((1, -1, -1), (1, -1, 1), (1, 1, -1))
    return [(joined(white), WHITE), (left, RED), (right, GREEN)]


def _ceiling_lamp(x: float, z: float, half: float) -> Shape:
    return quad((x - half, 0.999, z - half), (x + half, 0.999, z - half), (x - half, 0.999, z + half))


def cornell() -> Scene:
    boxes = [box((-0.35, -0.4, -0.3), (0.3, 0.6, 0.3), 18.0), box((0.35, -0.7, 0.3), (0.3, 0.3, 0.3), -16.0)]
    parts = [*_room(), (joined(boxes), WHITE), (_ceiling_lamp(0.0, 0.0, 0.25), lamp(17.0, 12.0, 4.0))]
    return make_scene(parts, (0.0, 0.0, 3.9), (0.0, 0.0, 0.0), 39.0)


def glass() -> Scene:
    ball = _moved(sphere(96, 48), (0.3, -0.55, 0.3), 0.4)
    parts = [*_room(), (ball, GLASS), (_ceiling_lamp(0.0, 0.0, 0.5), lamp(6.0, 5.0, 4.0))]
    return make_scene(parts, (0.0, 0.0, 3.9), (0.0, 0.0, 0.0), 39.0, smooth=True)


def many_lights() -> Scene:
    """256 lamps whose powers span a factor of thirty."""
    random = np.random.default_rng(7)
    lamps: list[Part] = []
    for i in range(16):
        for j in range(16):
            x, z = (i + 0.5) / 8.0 - 1.0, (j + 0.5) / 8.0 - 1.0
            color = random.uniform(0.3, 1.0, 3) * math.exp(random.uniform(0.0, 3.4))
            lamps.append((_ceiling_lamp(x, z, 0.02), lamp(*color)))
    boxes = [box((-0.35, -0.4, -0.3), (0.3, 0.6, 0.3), 18.0), box((0.35, -0.7, 0.3), (0.3, 0.3, 0.3), -16.0)]
    return make_scene([*_room(), (joined(boxes), WHITE), *lamps], (0.0, 0.0, 3.9), (0.0, 0.0, 0.0), 39.0)


def terrain(edge: int = 700) -> Scene:
    """Hills with spheres on them, a little over 2 (edge - 1)^2 triangles, under a sky and a sun."""
    ground = _hills(edge)
    random = np.random.default_rng(3)
    balls: list[Shape] = []
    for x, z, radius in zip(*random.uniform(-8, 8, (2, 16)), random.uniform(0.3, 0.7, 16), strict=True):
        balls.append(_moved(sphere(64, 32), (x, float(_height(x, z)) + radius, z), radius))
    sun = Light(LightKind.DIRECTIONAL, (2.5, 2.3, 2.0), direction=(-0.48, -0.64, -0.6))
    sky = Environment(np.array([[[0.5, 0.65, 0.9]]], np.float32))
    parts = [(ground, lambert(0.45, 0.4, 0.3)), (joined(balls), lambert(0.7, 0.3, 0.2))]
    return make_scene(
        parts, (0.0, 5.5, 13.0), (0.0, 0.3, 0.0), 45.0, smooth=True, lights=(sun,), environment=sky
    )


def _height(x: Any, z: Any) -> Any:
    h = 0.9 * np.sin(0.55 * x + 0.3) * np.cos(0.45 * z) + 0.35 * np.sin(1.7 * x + 0.9 * z)
    return h + 0.12 * np.sin(5.1 * x - 2.0 * z) * np.cos(4.3 * z) + 0.02 * np.sin(23.0 * x) * np.sin(19.0 * z)


def _hills(edge: int) -> Shape:
    line = np.linspace(-10.0, 10.0, edge)
    x, z = np.meshgrid(line, line)
    y, step = _height(x, z), 1e-4
    slope_x = (_height(x + step, z) - _height(x - step, z)) / (2 * step)
    slope_z = (_height(x, z + step) - _height(x, z - step)) / (2 * step)
    n = np.stack([-slope_x, np.ones_like(y), -slope_z], -1).reshape(-1, 3)
    corner = (np.arange(edge - 1)[:, None] * edge + np.arange(edge - 1)).reshape(-1)
    below = corner + edge
    halves = [np.stack([corner, below, below + 1], 1), np.stack([corner, below + 1, corner + 1], 1)]
    return Shape(
        np.stack([x, y, z], -1).reshape(-1, 3),
        n / np.linalg.norm(n, axis=1, keepdims=True),
        np.stack([x, z], -1).reshape(-1, 2) / 20.0 + 0.5,
        np.stack(halves, 1).reshape(-1, 3),
    )


def model() -> Scene:
    """Textured metals of every roughness under a sky with a bright spot."""
    textures = (_picture("colours", _colours), _picture("roughness", _roughness), _picture("tiles", _tiles))
    metal = Material(base_color_texture=TextureUse(0), metallic_roughness_texture=TextureUse(1), metallic=1.0)
    things = [
        _moved(torus(0.4, 256, 96), (-0.9, 0.4, 0.0), 1.0),
        _moved(sphere(192, 96), (1.2, 1.0, 0.3), 1.0),
        _moved(sphere(192, 96), (-0.9, 0.75, 0.0), 0.5),
    ]
    floor = quad((-6, 0, 6), (6, 0, 6), (-6, 0, -6))
    parts = [(joined(things), metal), (floor, lambert(1.0, 1.0, 1.0, texture=2))]
    eye, target = (0.0, 2.6, 5.5), (0.0, 0.6, 0.0)
    return make_scene(parts, eye, target, 38.0, smooth=True, textures=textures, environment=_sky())


def _sky(height: int = 256) -> Environment:
    v, u = np.mgrid[0:height, 0 : 2 * height]
    up = np.cos((v + 0.5) / height * math.pi)
    spot = ((u + 0.5) / height - 0.55) ** 2 + ((v + 0.5) / height - 0.27) ** 2
    base = 0.25 + 0.35 * np.maximum(up, 0.0)
    glow = 60.0 * np.exp(-spot / (2 * 0.02**2))
    pixels = np.stack([base + glow, base * 1.15 + 0.9 * glow, base * 1.5 + 0.7 * glow], -1)
    return Environment(pixels.astype(np.float32))


def _picture(name: str, paint: Callable[[Any, Any], Any], edge: int = 512) -> Texture:
    v, u = (np.mgrid[0:edge, 0:edge] + 0.5) / edge
    pixels = np.full((edge, edge, 4), 255, np.uint8)
    pixels[..., :3] = np.rint(255 * np.clip(paint(u, v), 0.0, 1.0))
    return Texture(name, pixels)


def _colours(u: Any, v: Any) -> Any:
    wave = 0.5 + 0.5 * np.sin(40.0 * u + 6.0 * np.sin(12.0 * v))
    return np.stack([0.95 - 0.1 * wave, 0.85 - 0.3 * wave, 0.6 - 0.2 * wave], -1)


def _roughness(u: Any, v: Any) -> Any:
    rough = 0.2 + 0.5 * (np.sin(25.0 * u) * np.sin(18.0 * v) > 0.0)
    return np.stack([np.zeros_like(rough), rough, np.ones_like(rough)], -1)


def _tiles(u: Any, v: Any) -> Any:
    light = np.where((np.floor(16 * u) + np.floor(16 * v)) % 2 > 0, 0.85, 0.45)
    return np.stack([light, light * 0.97, light * 0.9], -1)


def _moved(shape: Shape, center: Vec3, scale: float) -> Shape:
    return shape._replace(positions=shape.positions * scale + np.array(center))


SCENES: dict[str, Callable[[], Scene]] = {
    "cornell": cornell,
    "terrain": terrain,
    "model": model,
    "lights": many_lights,
    "glass": glass,
}
