"""glTF meshes as tracer meshes: one for each primitive of triangles."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracer.loaders.accessors import Accessors
from tracer.loaders.container import Element
from tracer.loaders.materials import Materials
from tracer.scene import Mesh

MODES = ("POINTS", "LINES", "LINE_LOOP", "LINE_STRIP", "TRIANGLES", "TRIANGLE_STRIP", "TRIANGLE_FAN")
TRIANGLES, STRIP, FAN = 4, 5, 6
ATTRIBUTES = {"NORMAL": (3,), "TANGENT": (4,), "TEXCOORD_0": (2,), "TEXCOORD_1": (2,), "COLOR_0": (3, 4)}
"""What is read beside POSITION, and how many components it may have."""


class Primitives:
    """Reads the file's meshes, when a node uses them, each once."""

    def __init__(self, top: Element, accessors: Accessors, materials: Materials, warnings: list[str]) -> None:
        self._elements = top.children("meshes")
        self._accessors, self._materials, self._warnings = accessors, materials, warnings
        self._numbers: dict[int, list[int]] = {}
        self.meshes: list[Mesh] = []

    def use(self, node: Element) -> list[int]:
        """The numbers in self.meshes of what the node shows."""
        number = node.index("mesh", len(self._elements))
        if number is None:
            return []
        if number not in self._numbers:
            self._numbers[number] = []
            element = self._elements[number]
            for primitive in element.children("primitives"):
                mesh = self._mesh(element.name() or f"mesh {number}", primitive)
                if mesh is not None:
                    self._numbers[number].append(len(self.meshes))
                    self.meshes.append(mesh)
        return self._numbers[number]

    def _mesh(self, name: str, primitive: Element) -> Mesh | None:
        mode = primitive.integer("mode", TRIANGLES, 0, FAN)
        attributes = primitive.required("attributes")
        if mode < TRIANGLES:
            self._warnings.append(f"{primitive.where()}: {MODES[mode]} are skipped; only triangles are shown")
            return None
        if "POSITION" not in attributes:
            self._warnings.append(f"{primitive.where()}: skipped, for it has no POSITION")
            return None
        if primitive.children("targets"):
            self._warnings.append(f"{primitive.where('targets')}: morph targets are ignored: shown at rest")
        positions = self._accessors.floats(attributes, "POSITION", (3,), np.float64)
        values = {key: self._attribute(attributes, key, len(positions)) for key in ATTRIBUTES}
        return Mesh(
            name=name,
            positions=positions,
            triangles=self._triangles(primitive, mode, len(positions)),
            material=self._materials.use(primitive),
            normals=values["NORMAL"],
            uv0=values["TEXCOORD_0"],
            uv1=values["TEXCOORD_1"],
            colors=values["COLOR_0"],
            tangents=values["TANGENT"],
        )

    def _attribute(self, attributes: Element, key: str, vertices: int) -> NDArray[np.float32] | None:
        if key not in attributes:
            return None
        values: NDArray[np.float32] = self._accessors.floats(attributes, key, ATTRIBUTES[key])
        if len(values) != vertices:
            raise attributes.fail(key, f"{len(values)} values for {vertices} positions")
        if key == "COLOR_0":
            if self._accessors.is_integer(attributes, key):
                raise attributes.fail(key, "colours that are integers have to be normalized")
            values = np.clip(values, 0.0, 1.0)  # as glTF 2.0 says in section 3.9.2
            if values.shape[1] == 3:
                values = np.concatenate([values, np.ones((vertices, 1), np.float32)], axis=1)
        return values

    def _triangles(self, primitive: Element, mode: int, vertices: int) -> NDArray[np.int64]:
        """(m, 3), strips and fans taken apart (glTF 2.0, section 3.7.2.1)."""
        if "indices" in primitive:
            corners = self._accessors.indices(primitive, "indices", vertices)
        else:
            corners = np.arange(vertices, dtype=np.int64)
        if mode == TRIANGLES:
            if len(corners) % 3:
                raise primitive.fail("", f"{len(corners)} corners are no whole number of triangles")
            return corners.reshape(-1, 3)
        if len(corners) < 3:
            raise primitive.fail("", f"{MODES[mode]} of {len(corners)} corners")
        if mode == FAN:
            first = np.full(len(corners) - 2, corners[0])
            return np.stack([corners[1:-1], corners[2:], first], axis=1)
        turned = np.arange(len(corners) - 2) % 2 == 1  # every other triangle of a strip faces the other way
        second = np.where(turned, corners[2:], corners[1:-1])
        third = np.where(turned, corners[1:-1], corners[2:])
        return np.stack([corners[:-2], second, third], axis=1)
