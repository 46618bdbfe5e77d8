"""Writes the scenes beside this file: still_life.glb (the demo), turntable.glb (which moves) and
cornell.gltf with its two files.

    python scenes/make_scenes.py

Everything is computed here; nothing comes from elsewhere. The files are kept in the repository, because
another processor may round a sine differently and a scene's bytes name its frames.
"""

from __future__ import annotations

import io
import json
import math
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from shapes import Array, Shape, Vec3, box, joined, lathe, quad, sphere, torus

FOLDER = Path(__file__).parent
FLOAT, U16 = 5126, 5123


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

    def node(self, name: str, **node: Any) -> int:
        number = self.add("nodes", name=name, **node)
        self.json["scenes"][0]["nodes"].append(number)
        return number

    def lens(self, fov_degrees: float, aspect: float) -> int:
        fov = math.radians(fov_degrees)
        camera = {"yfov": fov, "aspectRatio": aspect, "znear": 0.01}
        return self.add("cameras", type="perspective", perspective=camera)

    def camera(self, eye: Vec3, target: Vec3, fov_degrees: float, aspect: float) -> None:
        self.node("camera", camera=self.lens(fov_degrees, aspect), matrix=look_at(eye, target))

    def animate(self, node: int, path: str, values: Sequence[Sequence[float]], rule: str = "LINEAR") -> None:
        """Keys at 0, 1, 2... seconds; for CUBICSPLINE three values each: in-tangent, value, out-tangent."""
        times = np.arange(len(values) // (3 if rule == "CUBICSPLINE" else 1), dtype=float)
        bounds = {"min": [0.0], "max": [float(times[-1])]}
        sampler = {"input": self.accessor(times, FLOAT, **bounds), "interpolation": rule}
        sampler["output"] = self.accessor(np.array(values), FLOAT)
        [animation] = self.json.setdefault("animations", [{"channels": [], "samplers": []}])
        channel = {"sampler": len(animation["samplers"]), "target": {"node": node, "path": path}}
        animation["samplers"].append(sampler)
        animation["channels"].append(channel)

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


def turned(axis: Vec3, degrees: float) -> list[float]:
    """The quaternion of a rotation about a unit axis."""
    half = math.radians(0.5 * degrees)
    return [*(math.sin(half) * x for x in axis), math.cos(half)]


def turntable() -> Document:
    """Four seconds of a turning table, a hopping ball and a moving camera: each interpolation once."""
    d = Document()
    floor = d.material("floor", (0.55, 0.57, 0.60), 0.0, 0.8)
    wood = d.material("wood", (0.45, 0.25, 0.12), 0.0, 0.4)
    coral = d.material("coral", (0.80, 0.10, 0.06), 0.0, 0.25)
    gold = d.material("gold", (1.0, 0.77, 0.34), 1.0, 0.25)
    teal = d.material("teal", (0.02, 0.30, 0.33), 0.0, 0.2)
    lamp = d.lamp("lamp", (1.0, 0.92, 0.80), 12.0)
    ground = quad((-6.0, 0.0, 6.0), (6.0, 0.0, 6.0), (-6.0, 0.0, -6.0))
    d.node("ground", mesh=d.mesh("ground", ground, floor))
    shade = quad((-1.5, 5.0, -1.5), (1.5, 5.0, -1.5), (-1.5, 5.0, 1.5))
    d.node("lamp", mesh=d.mesh("lamp", shade, lamp))

    ball = sphere(24, 14)
    cube = d.mesh("cube", box((0.0, 0.55, 0.0), (0.45, 0.45, 0.45), 0.0), coral)
    parts = [
        d.add(
            "nodes", name="plate", mesh=d.mesh("plate", box((0.0, 0.05, 0.0), (1.2, 0.05, 1.2), 0.0), wood)
        ),
        d.add("nodes", name="cube", mesh=cube),
        d.add(
            "nodes",
            name="knob",
            mesh=d.mesh("knob", ball, gold),
            translation=[0.9, 0.3, 0.9],
            scale=[0.2] * 3,
        ),
    ]
    table = d.node("table", children=parts)
    d.animate(table, "rotation", [turned((0.0, 1.0, 0.0), 90.0 * second) for second in range(5)])

    hopper = d.node("hopper", mesh=d.mesh("hopper", ball, teal), scale=[0.25] * 3)
    hops = []
    for x in (-2.0, -1.0, 0.0, 1.0, 2.0):  # up at the full speed of a throw, and down again
        hops += [[1.0, -4.0, 0.0], [x, 0.25, 2.1], [1.0, 4.0, 0.0]]
    d.animate(hopper, "translation", hops, "CUBICSPLINE")
    d.animate(hopper, "scale", [[size] * 3 for size in (0.25, 0.2, 0.25, 0.2, 0.25)], "STEP")

    camera = d.node("camera", camera=d.lens(32.0, 16.0 / 9.0))
    d.animate(camera, "translation", [[0.0, 2.0, 7.0], [0.0, 2.4, 6.5], [0.0, 2.8, 6.0]])
    d.animate(camera, "rotation", [turned((1.0, 0.0, 0.0), -degrees) for degrees in (12.0, 16.5, 21.0)])
    return d


if __name__ == "__main__":
    turntable().save_glb(FOLDER / "turntable.glb")
    still_life().save_glb(FOLDER / "still_life.glb")
    cornell().save_gltf(FOLDER / "cornell.gltf")
    for file in sorted(FOLDER.glob("*.*")):
        print(f"{file.stat().st_size:>8} {file.name}")
