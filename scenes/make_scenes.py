"""Writes the scenes beside this file: still_life.glb (the demo) and cornell.gltf with its two files.

    python scenes/make_scenes.py

Everything is computed here; nothing comes from elsewhere. The files are kept in the repository, because
another processor may round a sine differently and a scene's bytes name its frames.
"""

from __future__ import annotations

import io
import json
import math
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

FOLDER = Path(__file__).parent
FLOAT, U16 = 5126, 5123
Array = NDArray[Any]
Vec3 = tuple[float, float, float]


class Shape(NamedTuple):
    """positions, normals (n, 3), uv (n, 2) and triangles (m, 3); front faces are counter-clockwise."""

    positions: Array
    normals: Array
    uv: Array
    triangles: Array


class Document:
    """A glTF under construction."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.json: dict[str, Any] = {
            "asset": {"version": "2.0", "generator": "Tessera make_scenes.py"},
            "scene": 0,
            "scenes": [{"nodes": []}],
        }

    def add(self, kind: str, **element: Any) -> int:
        elements: list[Any] = self.json.setdefault(kind, [])
        elements.append(element)
        return len(elements) - 1

    def view(self, raw: bytes) -> int:
        self.data += b"\0" * (-len(self.data) % 4)
        self.data += raw
        return self.add("bufferViews", buffer=0, byteOffset=len(self.data) - len(raw), byteLength=len(raw))

    def accessor(self, values: Array, component: int, **more: Any) -> int:
        kind = "SCALAR" if values.ndim == 1 else f"VEC{values.shape[1]}"
        raw = values.astype("<f4" if component == FLOAT else "<u2")
        view = self.view(raw.tobytes())
        return self.add(
            "accessors", bufferView=view, componentType=component, count=len(values), type=kind, **more
        )

    def mesh(self, name: str, shape: Shape, material: int, *, textured: bool = False) -> int:
        p = shape.positions.astype("<f4")
        bounds = {"min": p.min(axis=0).tolist(), "max": p.max(axis=0).tolist()}
        attributes = {"POSITION": self.accessor(p, FLOAT, **bounds)}
        attributes["NORMAL"] = self.accessor(shape.normals, FLOAT)
        if textured:
            attributes["TEXCOORD_0"] = self.accessor(shape.uv, FLOAT)
        indices = self.accessor(shape.triangles.reshape(-1), U16)
        primitive = {"attributes": attributes, "indices": indices, "material": material}
        return self.add("meshes", name=name, primitives=[primitive])

    def material(self, name: str, color: Vec3, metallic: float, roughness: float, **more: Any) -> int:
        pbr = {"baseColorFactor": [*color, 1.0], "metallicFactor": metallic, "roughnessFactor": roughness}
        pbr |= more.pop("pbr", {})
        return self.add("materials", name=name, pbrMetallicRoughness=pbr, **more)

    def lamp(self, name: str, color: Vec3, strength: float) -> int:
        self.uses("KHR_materials_emissive_strength")
        extension = {"KHR_materials_emissive_strength": {"emissiveStrength": strength}}
        return self.material(name, (0.0, 0.0, 0.0), 0.0, 1.0, emissiveFactor=[*color], extensions=extension)

    def uses(self, extension: str) -> None:
        used: list[str] = self.json.setdefault("extensionsUsed", [])
        if extension not in used:
            used.append(extension)

    def node(self, name: str, **node: Any) -> None:
        self.json["scenes"][0]["nodes"].append(self.add("nodes", name=name, **node))

    def camera(self, eye: Vec3, target: Vec3, fov_degrees: float, aspect: float) -> None:
        fov = math.radians(fov_degrees)
        camera = {"yfov": fov, "aspectRatio": aspect, "znear": 0.01}
        number = self.add("cameras", type="perspective", perspective=camera)
        self.node("camera", camera=number, matrix=look_at(eye, target))

    def save_glb(self, path: Path) -> None:
        self.data += b"\0" * (-len(self.data) % 4)
        self.add("buffers", byteLength=len(self.data))
        text = json.dumps(self.json, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 4)
        length = 12 + 8 + len(text) + 8 + len(self.data)
        header = struct.pack("<4sII", b"glTF", 2, length) + struct.pack("<I4s", len(text), b"JSON")
        path.write_bytes(header + text + struct.pack("<I4s", len(self.data), b"BIN\0") + self.data)

    def save_gltf(self, path: Path) -> None:
        binary = path.with_suffix(".bin")
        binary.write_bytes(self.data)
        self.add("buffers", uri=binary.name, byteLength=len(self.data))
        path.write_text(json.dumps(self.json, indent=1) + "\n")


def look_at(eye: Vec3, target: Vec3) -> list[float]:
    """A matrix, column by column, that looks along -Z from eye to target; +Z for what faces the target."""
    back = np.subtract(eye, target)
    back /= np.linalg.norm(back)
    right = np.cross((0.0, 1.0, 0.0), back)
    right /= np.linalg.norm(right)
    return [*right, 0.0, *np.cross(back, right), 0.0, *back, 0.0, *eye, 1.0]


def grid(point: Callable[[float, float], tuple[Vec3, Vec3]], columns: int, rows: int) -> Shape:
    """A surface from point(u, v) -> (position, normal), with u to the right and v down as seen outside."""
    steps = [(i / columns, j / rows) for j in range(rows + 1) for i in range(columns + 1)]
    both = np.array([point(u, v) for u, v in steps])
    corner = np.array([j * (columns + 1) + i for j in range(rows) for i in range(columns)])
    below = corner + columns + 1
    halves = [np.stack([corner, below, below + 1], 1), np.stack([corner, below + 1, corner + 1], 1)]
    triangles = np.stack(halves, 1).reshape(-1, 3)
    p = both[:, 0][triangles]  # the poles of a sphere are points: half of their quads has no area
    area = np.linalg.norm(np.cross(p[:, 1] - p[:, 0], p[:, 2] - p[:, 0]), axis=1)
    return Shape(both[:, 0], both[:, 1], np.array(steps), triangles[area > 1e-9])


def quad(a: Vec3, b: Vec3, d: Vec3, repeat: float = 1.0) -> Shape:
    """A parallelogram: corner a, its neighbours b and d; the front sees a, b, d counter-clockwise."""
    ab, ad = np.subtract(b, a), np.subtract(d, a)
    n = np.cross(ab, ad)
    corners = np.array([a, b, b + ad, d])
    uv = np.array([[0, repeat], [repeat, repeat], [repeat, 0], [0, 0]])
    return Shape(corners, np.tile(n / np.linalg.norm(n), (4, 1)), uv, np.array([[0, 1, 2], [0, 2, 3]]))


def joined(shapes: Sequence[Shape]) -> Shape:
    starts = np.cumsum([0, *(len(s.positions) for s in shapes)])
    triangles = [s.triangles + start for s, start in zip(shapes, starts[:-1], strict=True)]
    return Shape(
        np.concatenate([s.positions for s in shapes]),
        np.concatenate([s.normals for s in shapes]),
        np.concatenate([s.uv for s in shapes]),
        np.concatenate(triangles),
    )


def sphere(columns: int = 40, rows: int = 24) -> Shape:
    def point(u: float, v: float) -> tuple[Vec3, Vec3]:
        around, down = 2.0 * math.pi * u, math.pi * v
        n = (math.sin(down) * math.sin(around), math.cos(down), math.sin(down) * math.cos(around))
        return n, n

    return grid(point, columns, rows)


def torus(thickness: float, columns: int = 64, rows: int = 24) -> Shape:
    """Around +Y, of radius 1."""

    def point(u: float, v: float) -> tuple[Vec3, Vec3]:
        around, down = 2.0 * math.pi * u, 2.0 * math.pi * v
        out, up = math.sin(down), math.cos(down)
        r = 1.0 + thickness * out
        n = (out * math.sin(around), up, out * math.cos(around))
        return (r * math.sin(around), thickness * up, r * math.cos(around)), n

    return grid(point, columns, rows)


def lathe(profile: Sequence[tuple[float, float]], columns: int = 56, rows: int = 40) -> Shape:
    """(radius, height) points from the top down, joined by a smooth curve (Catmull-Rom), turned about +Y."""
    p = np.array([profile[0], *profile, profile[-1]], float)

    def curve(v: float) -> tuple[Array, Array]:
        at = min(v * (len(profile) - 1), len(profile) - 1 - 1e-9)
        i, t = int(at), at - int(at)
        a, b, c, d = p[i : i + 4]
        k = (c - a, 2.0 * a - 5.0 * b + 4.0 * c - d, 3.0 * b - a - 3.0 * c + d)
        place = b + 0.5 * t * (k[0] + t * (k[1] + t * k[2]))
        return place, k[0] + t * (2.0 * k[1] + t * 3.0 * k[2])

    def point(u: float, v: float) -> tuple[Vec3, Vec3]:
        (r, y), (dr, dy) = curve(v)
        s, c = math.sin(2.0 * math.pi * u), math.cos(2.0 * math.pi * u)
        length = math.hypot(dr, dy)
        out, up = -dy / length, dr / length
        return (max(r, 0.0) * s, y, max(r, 0.0) * c), (out * s, up, out * c)

    return grid(point, columns, rows)


def box(center: Vec3, half: Vec3, turn_degrees: float) -> Shape:
    """Five sides: the one it stands on is not seen."""
    s, c = math.sin(math.radians(turn_degrees)), math.cos(math.radians(turn_degrees))

    def at(x: float, y: float, z: float) -> Vec3:
        x, y, z = x * half[0], y * half[1], z * half[2]
        return (center[0] + c * x + s * z, center[1] + y, center[2] - s * x + c * z)

    corners = [((-1, 1), (1, 1)), ((1, 1), (1, -1)), ((1, -1), (-1, -1)), ((-1, -1), (-1, 1))]
    sides = [quad(at(a, -1, b), at(e, -1, f), at(a, 1, b)) for (a, b), (e, f) in corners]
    return joined([*sides, quad(at(-1, 1, 1), at(1, 1, 1), at(-1, 1, -1))])


def png(pixels: Array) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG", optimize=True)
    return stream.getvalue()


def planks(size: int = 512, count: int = 6) -> bytes:
    """A wooden floor that repeats, as JPEG: each plank has a tone and a stretched noise of its own."""
    random = np.random.default_rng(7)
    width = size // count + 1
    picture = np.zeros((size, size, 3))
    x = np.arange(size)
    for first in range(0, size, width):
        rows = min(width, size - first)
        waves = np.zeros((rows, size))
        for octave in range(1, 7):
            knots = random.normal(size=(4 * 2**octave, 1 + octave))
            coarse = np.kron(knots, np.ones((1, 2)))
            image = Image.fromarray(coarse.astype(np.float32)).resize((size, rows), Image.Resampling.BICUBIC)
            waves += np.asarray(image) / 1.35**octave
        tone = 0.75 + 0.35 * random.random()
        seam = int(random.random() * size)
        grain = tone * (1.0 + 0.11 * waves)
        grain[:, (x - seam) % size < 3] *= 0.35
        grain[:2] *= 0.35
        picture[first : first + rows] = grain[:, :, None] * np.array([0.60, 0.40, 0.25])
    stream = io.BytesIO()
    encoded = np.clip(picture * 255.0, 0.0, 255.0).astype(np.uint8)
    Image.fromarray(encoded).save(stream, "JPEG", quality=85)
    return stream.getvalue()


VASE = [
    (0.30, 2.78), (0.36, 2.80), (0.40, 2.76), (0.30, 2.50), (0.24, 2.15), (0.42, 1.75), (0.78, 1.25),
    (0.88, 0.85), (0.72, 0.38), (0.46, 0.10), (0.44, 0.0),
]  # fmt: skip
PAWN = [
    (0.0, 1.52), (0.20, 1.47), (0.31, 1.26), (0.24, 1.06), (0.17, 1.00), (0.32, 0.95), (0.30, 0.89),
    (0.16, 0.82), (0.20, 0.50), (0.36, 0.28), (0.30, 0.22), (0.48, 0.14), (0.50, 0.0),
]  # fmt: skip


def still_life() -> Document:
    d = Document()
    image = d.add("images", mimeType="image/jpeg", bufferView=d.view(planks()))
    texture = d.add("textures", source=image, sampler=d.add("samplers", wrapS=10497, wrapT=10497))
    floor = d.material("wood", (1.0, 1.0, 1.0), 0.0, 0.42, pbr={"baseColorTexture": {"index": texture}})
    wall = d.material("plaster", (0.42, 0.47, 0.50), 0.0, 0.95)
    teal = d.material("teal glaze", (0.015, 0.20, 0.22), 0.0, 0.12)
    gold = d.material("gold", (1.0, 0.766, 0.336), 1.0, 0.25)
    steel = d.material("brushed steel", (0.62, 0.61, 0.60), 1.0, 0.33)
    coral = d.material("coral plastic", (0.80, 0.10, 0.06), 0.0, 0.22)
    ivory = d.material("porcelain", (0.86, 0.84, 0.78), 0.0, 0.18)
    copper = d.material("copper", (0.955, 0.638, 0.538), 1.0, 0.2)
    key = d.lamp("softbox", (1.0, 0.86, 0.70), 11.0)
    fill = d.lamp("window", (0.55, 0.75, 1.0), 3.0)
    sky = d.lamp("skylight", (0.9, 0.95, 1.0), 0.5)

    table = quad((-9.0, 0.0, 9.0), (9.0, 0.0, 9.0), (-9.0, 0.0, -4.5), repeat=3.0)
    d.node("table", mesh=d.mesh("table", table, floor, textured=True))
    back = quad((-9.0, 0.0, -4.5), (9.0, 0.0, -4.5), (-9.0, 8.0, -4.5))
    d.node("wall", mesh=d.mesh("wall", back, wall))
    d.node("vase", mesh=d.mesh("vase", lathe(VASE), teal), translation=[-1.75, 0.0, -0.9])
    ring = d.mesh("ring", torus(0.24), gold)
    d.node("ring", mesh=ring, translation=[1.15, 0.185, 0.55], scale=[0.78] * 3)
    balls = {name: d.mesh(name, sphere(), m) for name, m in (("coral", coral), ("steel", steel))}
    balls["copper"] = d.mesh("copper", sphere(32, 20), copper)
    d.node("coral ball", mesh=balls["coral"], translation=[1.15, 0.80, 0.55], scale=[0.68] * 3)
    d.node("steel ball", mesh=balls["steel"], translation=[0.35, 1.0, -2.0], scale=[1.0] * 3)
    for number, (x, z, r) in enumerate(((-0.45, 1.55, 0.30), (-2.35, 0.95, 0.36), (2.5, 1.35, 0.22))):
        d.node(f"copper ball {number}", mesh=balls["copper"], translation=[x, r, z], scale=[r] * 3)
    pawn = d.mesh("pawn", lathe(PAWN, 48, 44), ivory)
    d.node("pawn", mesh=pawn, translation=[2.65, 0.0, -0.55], scale=[1.12] * 3)
    d.node("small pawn", mesh=pawn, translation=[-0.85, 0.0, 0.35], scale=[0.62] * 3)

    panel = quad((-1.0, -1.0, 0.0), (1.0, -1.0, 0.0), (-1.0, 1.0, 0.0))  # shines along +Z
    lamps = (
        ("softbox", key, (-4.6, 5.2, 3.6), 2.0),
        ("window", fill, (6.5, 3.4, 2.5), 2.4),
        ("skylight", sky, (0.0, 9.0, 0.1), 6.0),
    )
    for name, m, (x, y, z), half in lamps:
        scaled = panel._replace(positions=panel.positions * half)
        matrix = look_at((x, y, z), (2.0 * x, 2.0 * y - 0.6, 2.0 * z))  # its +Z faces the objects
        d.node(name, mesh=d.mesh(name, scaled, m), matrix=matrix)
    d.camera((0.25, 2.35, 8.6), (0.2, 0.98, 0.0), 25.0, 16.0 / 9.0)
    return d


def cornell() -> Document:
    """The Cornell box of everybody's first path tracer, with a chequered floor."""
    d = Document()
    checks = np.kron(np.indices((8, 8)).sum(axis=0) % 2, np.ones((8, 8), int))
    pixels = np.where(checks[:, :, None] == 1, (214, 205, 190), (92, 96, 104)).astype(np.uint8)
    (FOLDER / "cornell_checker.png").write_bytes(png(pixels))
    image = d.add("images", uri="cornell_checker.png")
    sampler = d.add("samplers", magFilter=9728, wrapS=10497, wrapT=10497)
    texture = d.add("textures", source=image, sampler=sampler)
    floor = d.material("floor", (1.0, 1.0, 1.0), 0.0, 0.9, pbr={"baseColorTexture": {"index": texture}})
    white, red = (
        d.material(n, c, 0.0, 0.9) for n, c in (("white", (0.73,) * 3), ("red", (0.63, 0.06, 0.05)))
    )
    green, gold = (
        d.material("green", (0.14, 0.45, 0.09), 0.0, 0.9),
        d.material("gold", (1.0, 0.77, 0.34), 1.0, 0.45),
    )
    lamp = d.lamp("lamp", (1.0, 0.84, 0.62), 26.0)

    d.node("floor", mesh=d.mesh("floor", quad((-1, 0, 1), (1, 0, 1), (-1, 0, -1)), floor, textured=True))
    walls = [quad((-1, 0, -1), (1, 0, -1), (-1, 2, -1)), quad((-1, 2, -1), (1, 2, -1), (-1, 2, 1))]
    d.node("walls", mesh=d.mesh("walls", joined(walls), white))
    d.node("left", mesh=d.mesh("left", quad((-1, 0, 1), (-1, 0, -1), (-1, 2, 1)), red))
    d.node("right", mesh=d.mesh("right", quad((1, 0, -1), (1, 0, 1), (1, 2, -1)), green))
    d.node("tall", mesh=d.mesh("tall", box((-0.33, 0.6, -0.35), (0.3, 0.6, 0.3), 18.0), white))
    d.node("short", mesh=d.mesh("short", box((0.38, 0.28, 0.3), (0.28, 0.28, 0.28), -17.0), gold))
    shade = quad((-0.24, 1.995, -0.22), (0.24, 1.995, -0.22), (-0.24, 1.995, 0.22))
    d.node("lamp", mesh=d.mesh("lamp", shade, lamp))
    d.camera((0.0, 1.0, 3.4), (0.0, 1.0, 0.0), 45.0, 1.0)
    return d


if __name__ == "__main__":
    still_life().save_glb(FOLDER / "still_life.glb")
    cornell().save_gltf(FOLDER / "cornell.gltf")
    for file in sorted(FOLDER.glob("*.*")):
        print(f"{file.stat().st_size:>8} {file.name}")
