"""The scenes that are measured, made in memory.

Materials are those that both sides compute alike: Lambertian (no specular layer), white glass, and for the
model white metal of GGX microfacets. Only where metal is white is glTF's Fresnel term (Schlick's, which is 1
then) a twin of a conductor's in Mitsuba; its colour is a texture nevertheless, so that both sides look it up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from scenes.shapes import Shape, Vec3, box, quad, sphere, torus
from tracer.scene import Camera, Environment, Instance, Material, Mesh, Scene, Texture, TextureUse

WHITE, RED, GREEN = (0.73, 0.73, 0.73), (0.65, 0.05, 0.05), (0.12, 0.45, 0.15)
IDENTITY = np.eye(4)


@dataclass
class Builder:
    """A scene under construction: one mesh, one instance and one material for each shape."""

    meshes: list[Mesh] = field(default_factory=list)
    materials: list[Material] = field(default_factory=list)
    textures: list[Texture] = field(default_factory=list)

    def add(self, shape: Shape, material: Material, smooth: bool = False) -> None:
        self.meshes.append(
            Mesh(
                name=f"mesh{len(self.meshes)}",
                positions=np.asarray(shape.positions, np.float64),
                triangles=np.asarray(shape.triangles, np.int64),
                material=len(self.materials),
                normals=np.asarray(shape.normals, np.float32) if smooth else None,
                uv0=np.asarray(shape.uv, np.float32) if material.base_color_texture else None,
            )
        )
        self.materials.append(material)

    def texture(self, name: str, pixels: NDArray[np.uint8]) -> TextureUse:
        self.textures.append(Texture(name, pixels))
        return TextureUse(len(self.textures) - 1)

    def scene(self, camera: Camera, environment: Environment | None = None) -> Scene:
        return Scene(
            meshes=tuple(self.meshes),
            materials=tuple(self.materials),
            textures=tuple(self.textures),
            instances=tuple(Instance(i, IDENTITY) for i in range(len(self.meshes))),
            cameras=(camera,),
            # Without one that is black, a scene without lights would be lit in white.
            environment=environment or Environment(np.zeros((1, 1, 3), np.float32)),
        )


def matte(color: Vec3, texture: TextureUse | None = None) -> Material:
    return Material(
        base_color=(*color, 1.0), base_color_texture=texture, metallic=0.0, specular=0.0, double_sided=True
    )


def lamp(radiance: Vec3) -> Material:
    return Material(base_color=(0.0, 0.0, 0.0, 1.0), metallic=0.0, specular=0.0, emissive=radiance)


def camera_at(eye: Vec3, target: Vec3, fov_degrees: float) -> Camera:
    back = np.subtract(eye, target)
    back /= np.linalg.norm(back)
    right = np.cross((0.0, 1.0, 0.0), back)
    right /= np.linalg.norm(right)
    transform = np.eye(4)
    transform[:3] = np.stack([right, np.cross(back, right), back, np.array(eye)], 1)
    return Camera("camera", transform, math.radians(fov_degrees), aspect=1.0)


def room(builder: Builder) -> None:
    """Five walls around [-1, 1]^3, open towards +Z, and two boxes."""
    builder.add(quad((-1, -1, 1), (1, -1, 1), (-1, -1, -1)), matte(WHITE))
    builder.add(quad((-1, 1, -1), (1, 1, -1), (-1, 1, 1)), matte(WHITE))
    builder.add(quad((-1, -1, -1), (1, -1, -1), (-1, 1, -1)), matte(WHITE))
    builder.add(quad((-1, -1, 1), (-1, -1, -1), (-1, 1, 1)), matte(RED))
    builder.add(quad((1, -1, -1), (1, -1, 1), (1, 1, -1)), matte(GREEN))
    builder.add(box((-0.35, -0.4, -0.3), (0.3, 0.6, 0.3), 18.0), matte(WHITE))
    builder.add(box((0.35, -0.7, 0.3), (0.3, 0.3, 0.3), -17.0), matte(WHITE))


ROOM_CAMERA = camera_at((0.0, 0.0, 3.9), (0.0, 0.0, 0.0), 39.0)


def ceiling_lamp(x: float, z: float, half: float) -> Shape:
    """A square that shines down from just below the ceiling."""
    y = 0.995
    return quad((x - half, y, z - half), (x + half, y, z - half), (x - half, y, z + half))


def cornell() -> Scene:
    builder = Builder()
    room(builder)
    builder.add(ceiling_lamp(0.0, 0.0, 0.25), lamp((15.0, 12.0, 8.0)))
    return builder.scene(ROOM_CAMERA)


def glass() -> Scene:
    """The room with a ball and a ring of frosted glass."""
    builder = Builder()
    room(builder)
    builder.add(ceiling_lamp(0.0, 0.0, 0.25), lamp((15.0, 12.0, 8.0)))
    frosted = Material(metallic=0.0, roughness=0.4, ior=1.5, transmission=1.0, thickness=1.0)
    ball = sphere(96, 48)
    builder.add(ball._replace(positions=0.3 * np.asarray(ball.positions) + [0.4, -0.1, 0.35]), frosted)
    ring = torus(0.35, 96, 48)
    builder.add(ring._replace(positions=0.3 * np.asarray(ring.positions) + [-0.4, -0.75, 0.55]), frosted)
    return builder.scene(ROOM_CAMERA)


def many_emitters(side: int = 16) -> Scene:
    """side^2 lamps under the ceiling whose powers span a factor of about a hundred."""
    builder, random = Builder(), np.random.default_rng(5)
    room(builder)
    places = (np.arange(side) + 0.5) / side * 1.9 - 0.95
    for x in places:
        for z in places:
            strength = 10.0 ** random.uniform(0.0, 2.0)
            r, g, b = strength * random.uniform(0.3, 1.0, 3)
            builder.add(ceiling_lamp(float(x), float(z), 0.015), lamp((float(r), float(g), float(b))))
    return builder.scene(ROOM_CAMERA)


def terrain(cells: int = 640, balls: int = 12) -> Scene:
    """Hills with spheres on them under a lamp and a grey sky: 1.0 M triangles."""
    builder = Builder()
    builder.add(_hills(cells), matte((0.45, 0.40, 0.30)))
    ball = sphere(128, 60)
    for i in range(balls):
        turn, out = 2.0 * math.pi * i / balls, 3.0 + 2.0 * (i % 3)
        x, z = out * math.cos(turn), out * math.sin(turn)
        center = np.array([x, float(_height(np.array(x), np.array(z))) + 0.7, z])
        builder.add(ball._replace(positions=0.8 * np.asarray(ball.positions) + center), matte(WHITE))
    builder.add(quad((-3, 9, -3), (3, 9, -3), (-3, 9, 3)), lamp((12.0, 11.0, 9.0)))
    sky = Environment(np.full((1, 1, 3), 0.4, np.float32))
    return builder.scene(camera_at((0.0, 6.0, 13.0), (0.0, 0.0, 0.0), 45.0), sky)


def _height(x: NDArray[np.float64], z: NDArray[np.float64]) -> NDArray[np.float64]:
    waves = np.zeros_like(x)
    for octave in range(6):
        f = 0.35 * 1.9**octave
        waves += np.sin(f * x + 1.3 * octave) * np.cos(f * z + 0.7 * octave) / 1.9**octave
    return waves


def _hills(cells: int) -> Shape:
    line = np.linspace(-10.0, 10.0, cells + 1)
    x, z = (a.ravel() for a in np.meshgrid(line, line))
    corner = (np.arange(cells)[:, None] * (cells + 1) + np.arange(cells)[None, :]).ravel()
    below = corner + cells + 1
    halves: Sequence[NDArray[np.int64]] = (
        np.stack([corner, below, below + 1], 1),
        np.stack([corner, below + 1, corner + 1], 1),
    )
    positions = np.stack([x, _height(x, z), z], 1)
    return Shape(positions, np.zeros_like(positions), np.stack([x, z], 1), np.concatenate(halves))


def metal_model() -> Scene:
    """A ring and a ball of metal with textures, under a sky with a sun."""
    builder = Builder()
    white = builder.texture("white", np.full((1024, 1024, 4), 255, np.uint8))
    rough = builder.texture("rough", _noise(2, 0.25, 0.7))
    metal = Material(base_color_texture=white, metallic=1.0, roughness=1.0, metallic_roughness_texture=rough)
    ring = torus(0.35, 320, 120)
    builder.add(ring._replace(positions=np.asarray(ring.positions) * 1.3), metal, smooth=True)
    ball = sphere(240, 120)
    builder.add(ball._replace(positions=np.asarray(ball.positions) * 0.8), metal, smooth=True)
    floor = builder.texture("floor", _noise(3, 0.2, 0.8))
    builder.add(quad((-6, -0.9, 6), (6, -0.9, 6), (-6, -0.9, -6)), matte((0.8, 0.8, 0.8), floor))
    return builder.scene(camera_at((0.0, 2.6, 4.6), (0.0, -0.1, 0.0), 42.0), Environment(_sky(512, 256)))


def _noise(seed: int, low: float, high: float, size: int = 1024) -> NDArray[np.uint8]:
    """(size, size, 4): smooth waves that repeat in R and G; B and A are 255 (all metal)."""
    random, at = np.random.default_rng(seed), np.arange(size) / size * 2.0 * math.pi
    values = np.zeros((size, size, 4))
    for _ in range(12):
        fx, fy = random.integers(1, 24, 2)
        wave = np.sin(fx * at[None, :] + random.uniform(0, 6)) * np.sin(fy * at[:, None])
        values += wave[..., None] * random.uniform(0.0, 1.0, 4)
    values = low + (high - low) * (0.5 + 0.5 * np.tanh(values / 2.0))
    values[..., 2:] = 1.0
    return np.round(values * 255.0).astype(np.uint8)


def _sky(width: int, height: int) -> NDArray[np.float32]:
    """Blue above, brown below, and a sun some texels wide, 300 times brighter."""
    u, v = np.meshgrid((np.arange(width) + 0.5) / width, (np.arange(height) + 0.5) / height)
    up = np.cos(math.pi * v)[..., None]
    base = np.where(up > 0.0, 0.4 + 0.5 * up * np.array([0.3, 0.6, 1.0]), np.array([0.25, 0.2, 0.15]))
    around = ((u - 0.15) * 2.0 * math.sin(0.25 * math.pi)) ** 2 + (v - 0.25) ** 2
    sun = 300.0 * np.exp(-around / (2.0 * 0.012**2))
    return np.asarray(base + sun[..., None] * np.array([1.0, 0.9, 0.7]), np.float32)


SCENES = {
    "Cornell box": cornell,
    "1 M triangles": terrain,
    "Glass": glass,
    "256 emitters": many_emitters,
    "GGX model, HDR sky": metal_model,
}
