"""glTF accessors as arrays (glTF 2.0, sections 3.6.2.2 to 3.6.2.4, sparse ones too)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracer.loaders.buffers import Buffers
from tracer.loaders.container import Element
from tracer.scene import Progress

COMPONENTS = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
"""componentType to a little-endian NumPy type."""
LARGEST_INTEGER = {"<i1": 127.0, "<u1": 255.0, "<i2": 32767.0, "<u2": 65535.0}
"""What stands for 1 where integers are normalized."""
WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT2": 4, "MAT3": 9, "MAT4": 16}
UNSIGNED = ("<u1", "<u2", "<u4")
MAX_ZEROS = 1 << 20
"""Elements of an accessor without a bufferView: they are only announced, so they are not trusted."""


class _Layout(NamedTuple):
    dtype: str
    width: int
    length: int
    normalized: bool


class Accessors:
    """Reads accessors by number. Every array is a copy, and finite."""

    def __init__(self, top: Element, buffers: Buffers, progress: Progress) -> None:
        self._accessors = top.children("accessors")
        self._buffers = buffers
        self._progress = progress

    def indices(self, owner: Element, key: str, vertices: int) -> NDArray[np.int64]:
        """(n,) numbers of vertices, all in range."""
        element = self._element(owner, key)
        layout = self._layout(element)
        if layout.dtype not in UNSIGNED or layout.width != 1 or layout.normalized:
            raise element.fail("componentType", "indices are SCALAR and unsigned, and not normalized")
        values = self._read(element, layout)[:, 0]
        largest = int(values.max())
        if largest >= vertices:
            raise element.fail(
                "", f"its index {int(values.argmax())} is {largest}, but there are {vertices} vertices"
            )
        return values.astype(np.int64)

    def floats(
        self, owner: Element, key: str, widths: tuple[int, ...], dtype: type[np.floating[Any]] = np.float32
    ) -> NDArray[Any]:
        """(n, width) of dtype, width being one of widths. Normalized integers become -1..1 or 0..1.

        Raises SceneInvalid for another width, and for values that are not finite.
        """
        element = self._element(owner, key)
        layout = self._layout(element)
        if layout.width not in widths or element.string("type").startswith("MAT"):
            kinds = " or ".join("SCALAR" if width == 1 else f"VEC{width}" for width in widths)
            raise element.fail("type", f"{owner.where(key)} needs {kinds}")
        if layout.dtype == "<u4":
            raise element.fail("componentType", "32-bit integers are for indices only")
        raw = self._read(element, layout)
        # Before they are converted: NumPy warns where a signalling NaN is.
        if layout.dtype == "<f4" and not np.isfinite(raw).all():
            first = int(np.flatnonzero(~np.isfinite(raw).all(axis=1))[0])
            raise element.fail("", f"element {first} is not finite (NaN or infinite)")
        values = raw.astype(dtype)
        if layout.normalized:
            # In float64 and rounded once: the same whatever the processor.
            scaled = raw.astype(np.float64) / LARGEST_INTEGER[layout.dtype]
            values = np.maximum(scaled, -1.0).astype(dtype)
        return values

    def is_integer(self, owner: Element, key: str) -> bool:
        """Whether the values are integers that do not stand for fractions."""
        layout = self._layout(self._element(owner, key))
        return layout.dtype != "<f4" and not layout.normalized

    def is_float(self, owner: Element, key: str) -> bool:
        """Whether the values are stored as floats."""
        return self._layout(self._element(owner, key)).dtype == "<f4"

    def _element(self, owner: Element, key: str) -> Element:
        number = owner.index(key, len(self._accessors))
        if number is None:
            raise owner.fail(key, "is missing")
        return self._accessors[number]

    def _layout(self, element: Element) -> _Layout:
        component = element.integer("componentType")
        kind = element.string("type")
        if component not in COMPONENTS:
            raise element.fail("componentType", f"{component} is none of {sorted(COMPONENTS)}")
        if kind not in WIDTHS:
            raise element.fail("type", f"is none of {' '.join(WIDTHS)}")
        dtype, normalized = COMPONENTS[component], element.flag("normalized")
        if normalized and dtype not in LARGEST_INTEGER:
            raise element.fail("normalized", "only 8 and 16-bit integers can be")
        return _Layout(dtype, WIDTHS[kind], element.integer("count", low=1), normalized)

    def _read(self, element: Element, layout: _Layout) -> NDArray[Any]:
        """(count, width) as stored."""
        self._progress(f"reading {element.where()}")
        values = self._strided(element, "bufferView", layout)
        sparse = element.child("sparse")
        if values is None:
            if sparse is None:
                raise element.fail("bufferView", "is missing: there is no data to read")
            if layout.length > MAX_ZEROS:
                raise element.fail("count", f"{layout.length} elements without a bufferView")
            values = np.zeros((layout.length, layout.width), layout.dtype)
        if sparse is not None:
            values = values.copy()
            self._replace(values, sparse, layout)
        return values

    def _replace(self, values: NDArray[Any], sparse: Element, layout: _Layout) -> None:
        count = sparse.integer("count", low=1, high=layout.length)
        where, what = sparse.required("indices"), sparse.required("values")
        component = COMPONENTS.get(where.integer("componentType"))
        if component not in UNSIGNED:
            raise where.fail("componentType", "not an unsigned integer")
        rows = self._strided(where, "bufferView", _Layout(component, 1, count, False))
        replacement = self._strided(what, "bufferView", layout._replace(length=count))
        if rows is None or replacement is None:
            raise sparse.fail("indices" if rows is None else "values", "has no bufferView")
        order = rows[:, 0].astype(np.int64)
        if int(order.max()) >= layout.length or (order[1:] <= order[:-1]).any():
            raise where.fail("", f"do not rise, or exceed the {layout.length} elements")
        values[order] = replacement

    def _strided(self, element: Element, key: str, layout: _Layout) -> NDArray[Any] | None:
        """The view's bytes as (count, width); None without a view."""
        view = self._buffers.view(element, key)
        if view is None:
            return None
        dtype = np.dtype(layout.dtype)
        size = dtype.itemsize * layout.width
        offset, stride = element.integer("byteOffset", 0), view.stride or size
        if stride < size:
            raise element.fail(key, f"has a byteStride of {stride} for elements of {size} bytes")
        end = offset + stride * (layout.length - 1) + size
        if end > len(view.data):
            raise element.fail(
                "count", f"{layout.length} elements end at byte {end} of a view of {len(view.data)}"
            )
        strides = (stride, dtype.itemsize)
        return np.ndarray((layout.length, layout.width), dtype, view.data, offset, strides)
