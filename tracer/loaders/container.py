"""A glTF's JSON, every value checked when it is read: its type, its range, its length.

Messages name the file and the place in it: `scene.gltf: nodes[3].rotation: not an array of 4 numbers`.
"""

from __future__ import annotations

import re
from io import BytesIO
from typing import Any

from tracer.errors import SceneInvalid, SceneUnsupported
from tracer.limits import Limits
from tracer.references import parse_json, read_glb, shorten
from tracer.scene import SceneFiles

LARGEST = 3.4e38
"""Of float32, in which the renderer keeps what it reads."""
BRIGHTEST = 1e6
"""Of a colour, so that its product with an intensity stays in float32."""
EXCESS = 1.001
"""How far above its bound a factor may be, from an exporter's rounding; it is taken as the bound."""
SUPPORTED = frozenset(
    {
        "KHR_materials_emissive_strength",
        "KHR_materials_ior",
        "KHR_materials_specular",
        "KHR_materials_transmission",
        "KHR_materials_unlit",
        "KHR_materials_volume",
        "KHR_texture_transform",
        "KHR_lights_punctual",
        "KHR_mesh_quantization",
        "EXT_mesh_gpu_instancing",
    }
)


class Element:
    """A JSON object and its place in the file. Every method raises SceneInvalid for what does not fit."""

    __slots__ = ("_place", "file", "value")

    def __init__(self, file: str, place: str, value: dict[str, Any]) -> None:
        self.file, self._place, self.value = file, place, value

    def __contains__(self, key: str) -> bool:
        return key in self.value

    def where(self, key: str = "") -> str:
        place = f"{self._place}.{key}" if self._place and key else self._place or key
        return f"{self.file}: {place}"

    def fail(self, key: str, problem: str) -> SceneInvalid:
        return SceneInvalid(f"{self.where(key)}: {problem}")

    def child(self, key: str) -> Element | None:
        value = self.value.get(key)
        if value is not None and not isinstance(value, dict):
            raise self.fail(key, "not an object")
        return None if value is None else Element(self.file, self._inner(key), value)

    def required(self, key: str) -> Element:
        child = self.child(key)
        if child is None:
            raise self.fail(key, "is missing")
        return child

    def children(self, key: str) -> list[Element]:
        """An array of objects; empty where there is none."""
        value = self._array(key)
        for number, item in enumerate(value):
            if not isinstance(item, dict):
                raise self.fail(f"{key}[{number}]", "not an object")
        return [Element(self.file, f"{self._inner(key)}[{n}]", item) for n, item in enumerate(value)]

    def extension(self, name: str) -> Element | None:
        extensions = self.child("extensions")
        return None if extensions is None else extensions.child(name)

    def integer(self, key: str, default: int | None = None, low: int = 0, high: int = 1 << 53) -> int:
        value = self._given(key, default)
        return self._integer(value, key, low, high)

    def index(self, key: str, count: int) -> int | None:
        """An index into an array of so many; None where there is none."""
        return self._integer(self.value[key], key, 0, count - 1) if key in self.value else None

    def indices(self, key: str, count: int) -> list[int]:
        values = self._array(key)
        return [self._integer(value, f"{key}[{n}]", 0, count - 1) for n, value in enumerate(values)]

    def number(
        self, key: str, default: float | None = None, low: float = -LARGEST, high: float = LARGEST
    ) -> float:
        return self._number(self._given(key, default), key, low, high)

    def numbers(
        self, key: str, default: tuple[float, ...], low: float = -LARGEST, high: float = LARGEST
    ) -> tuple[float, ...]:
        """As many as the default has."""
        if key not in self.value:
            return default
        values = self._array(key)
        if len(values) != len(default):
            raise self.fail(key, f"not an array of {len(default)} numbers")
        return tuple(self._number(value, f"{key}[{n}]", low, high) for n, value in enumerate(values))

    def rgb(self, key: str, default: float, high: float = BRIGHTEST) -> tuple[float, float, float]:
        r, g, b = self.numbers(key, (default,) * 3, 0.0, high)
        return r, g, b

    def string(self, key: str, default: str | None = None) -> str:
        value = self._given(key, default)
        if not isinstance(value, str):
            raise self.fail(key, "not a string")
        return value

    def strings(self, key: str) -> list[str]:
        values = self._array(key)
        if not all(isinstance(value, str) for value in values):
            raise self.fail(key, "not an array of strings")
        return values

    def flag(self, key: str) -> bool:
        value = self.value.get(key, False)
        if not isinstance(value, bool):
            raise self.fail(key, "neither true nor false")
        return value

    def name(self) -> str:
        """For people: control characters would break a message's one line."""
        return "".join(c if c.isprintable() else " " for c in self.string("name", ""))

    def _inner(self, key: str) -> str:
        return f"{self._place}.{key}" if self._place else key

    def _given(self, key: str, default: Any) -> Any:
        value = self.value.get(key, default)
        if value is None:
            raise self.fail(key, "is missing")
        return value

    def _array(self, key: str) -> list[Any]:
        value = self.value.get(key, [])
        if not isinstance(value, list):
            raise self.fail(key, "not an array")
        return value

    def _integer(self, value: Any, key: str, low: int, high: int) -> int:
        if isinstance(value, float) and value.is_integer():  # 3.0 is three, whatever wrote it
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.fail(key, "not an integer")
        if not low <= value <= high:
            bound = f"not in {low}..{high}" if high >= low else "refers to an element of an empty array"
            raise self.fail(key, f"{str(value)[:40]} is {bound}")
        return value

    def _number(self, value: Any, key: str, low: float, high: float) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.fail(key, "not a number")
        if not low <= value <= high * EXCESS or not abs(value) <= LARGEST:
            raise self.fail(key, f"{str(value)[:40]} is not in {low:g}..{high:g}")
        return min(float(value), high)


def open_gltf(entry: str, files: SceneFiles, limits: Limits) -> tuple[Element, memoryview | None]:
    """(the top of the JSON, the binary chunk of a GLB). Checks the version and required extensions.

    Raises SceneInvalid, and SceneUnsupported naming a version or an extension that is not read.
    """
    data = files.read(entry)
    if len(data) > limits.file_bytes:
        raise SceneUnsupported(f"{entry}: {len(data)} bytes; at most {limits.file_bytes} are read")
    binary = None
    if entry.lower().endswith(".glb"):
        chunks = read_glb(BytesIO(data), len(data), entry)
        binary = memoryview(data)[chunks.start : chunks.stop] if chunks.stop else None
        data = chunks.json
    top = Element(entry, "", parse_json(data, entry))
    _check_version(top.required("asset"))
    for name in top.strings("extensionsRequired"):
        if name not in SUPPORTED:
            raise SceneUnsupported(
                f"{entry}: extensionsRequired: {shorten(name)} is not supported; export without it"
            )
    return top, binary


def _check_version(asset: Element) -> None:
    for key in ("version", "minVersion"):
        version = asset.string(key, "" if key == "minVersion" else None)
        match = re.fullmatch(r"(\d{1,4})\.(\d{1,4})", version)
        if version and not match:
            raise asset.fail(key, f"{shorten(version)} is not a version like 2.0")
        too_new = match is not None and key == "minVersion" and int(match[2]) > 0
        if match is not None and (int(match[1]) != 2 or too_new):
            raise SceneUnsupported(f"{asset.where(key)}: glTF {version}; only version 2.0 is read")
    if not asset.string("version"):
        raise asset.fail("version", "is empty")
