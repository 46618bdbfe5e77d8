"""Scene files made in memory: a small writer of glTF, and files that are not on a disk."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tracer.errors import FileAbsent
from tracer.loaders import load_scene
from tracer.scene import Scene

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "scenes"
CODES = {"f4": 5126, "u1": 5121, "i1": 5120, "u2": 5123, "i2": 5122, "u4": 5125}
KINDS = {1: "SCALAR", 2: "VEC2", 3: "VEC3", 4: "VEC4", 16: "MAT4"}
CORNERS = ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0))


class Memory(dict[str, bytes]):
    """tracer.scene.SceneFiles of what it holds."""

    def read(self, path: str) -> bytes:
        if path not in self:
            raise FileAbsent(f"{path}: not there")
        return self[path]


class Gltf:
    """A glTF under construction: one buffer, one scene, and helpers for what tests vary."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.files = Memory()
        self.json: dict[str, Any] = {"asset": {"version": "2.0"}, "scene": 0, "scenes": [{"nodes": []}]}

    def add(self, collection: str, **element: Any) -> int:
        elements: list[Any] = self.json.setdefault(collection, [])
        elements.append(element)
        return len(elements) - 1

    def view(self, raw: bytes, **more: Any) -> int:
        self.data += b"\0" * (-len(self.data) % 4)
        self.data += raw
        offset = len(self.data) - len(raw)
        return self.add("bufferViews", buffer=0, byteOffset=offset, byteLength=len(raw), **more)

    def accessor(self, values: Any, dtype: str = "f4", **more: Any) -> int:
        array = np.array(values).astype("<" + dtype)
        kind = KINDS[1 if array.ndim == 1 else array.shape[1]]
        element = {"bufferView": self.view(array.tobytes()), "componentType": CODES[dtype]}
        return self.add("accessors", **(element | {"count": len(array), "type": kind} | more))

    def primitive(self, positions: Any = CORNERS, **more: Any) -> dict[str, Any]:
        """more: attributes by their names in capitals, as numbers of accessors; others go beside them."""
        attributes = {
            key: value for key, value in more.items() if key.isupper() or "_0" in key or "_1" in key
        }
        others = {key: value for key, value in more.items() if key not in attributes}
        return {"attributes": {"POSITION": self.accessor(positions)} | attributes} | others

    def node(self, **node: Any) -> int:
        """A node at the top of the scene."""
        number = self.add("nodes", **node)
        self.json["scenes"][0]["nodes"].append(number)
        return number

    def show(self, *primitives: dict[str, Any], **node: Any) -> int:
        return self.node(mesh=self.add("meshes", primitives=list(primitives)), **node)

    def material(self, **material: Any) -> Gltf:
        """A triangle of this material."""
        self.show(self.primitive(material=self.add("materials", **material)))
        return self

    def texture(self, pixels: Any = None, name: str = "t.png", **sampler: Any) -> int:
        self.files[name] = png(np.zeros((2, 2, 3), np.uint8) if pixels is None else pixels)
        image = self.add("images", uri=name)
        return self.add("textures", source=image, sampler=self.add("samplers", **sampler))

    def glb(self) -> bytes:
        self.data += b"\0" * (-len(self.data) % 4)
        document = self.json | ({"buffers": [{"byteLength": len(self.data)}]} if self.data else {})
        return glb(json.dumps(document).encode(), bytes(self.data))

    def load(self, **more: Any) -> Scene:
        return load_scene("s.glb", Memory(self.files | {"s.glb": self.glb()}), **more)


def glb(text: bytes, binary: bytes) -> bytes:
    text += b" " * (-len(text) % 4)
    chunks = struct.pack("<I4s", len(text), b"JSON") + text
    if binary:
        chunks += struct.pack("<I4s", len(binary), b"BIN\0") + binary
    return struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks


def png(pixels: NDArray[Any], kind: str = "PNG") -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


def load_text(text: str, name: str = "s.obj", **files: bytes) -> Scene:
    """files: by name, with _ for the dot."""
    others = {key.replace("_", "."): data for key, data in files.items()}
    return load_scene(name, Memory(others | {name: text.encode()}))
