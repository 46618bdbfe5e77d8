"""The body of a PLY: rows of elements in ASCII or binary, columns out. What is announced but not there is
refused before anything is allocated for it."""

from __future__ import annotations

import struct
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tracer.errors import SceneInvalid
from tracer.scene import Progress

TYPES = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1", "short": "i2", "int16": "i2",
    "ushort": "u2", "uint16": "u2", "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4",
    "float": "f4", "float32": "f4", "double": "f8", "float64": "f8",
}  # fmt: skip
_FORMATS = {"i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "f4": "f", "f8": "d"}
BEAT = 20_000
"""Rows read one by one between two calls of progress."""
TEXT_CHUNK = 1 << 22
"""Bytes of ASCII turned into numbers between two calls of progress."""

Floats = NDArray[np.float64]


class Property(NamedTuple):
    """kind: a NumPy type without byte order. length_kind: of a list's length, None for a single value."""

    name: str
    kind: str
    length_kind: str | None = None


class Element(NamedTuple):
    name: str
    rows: int
    properties: tuple[Property, ...]


class Column(NamedTuple):
    """Values of all rows, one row after the other, and how many each row has."""

    values: Floats
    lengths: NDArray[np.int64]


class Body(Protocol):
    """What is left to be read."""

    def least(self, element: Element) -> int:
        """The smallest size that a row can have."""

    def left(self) -> int:
        """How much there is, in the unit of `least`."""

    def number(self, kind: str) -> float:
        """The next value. Raises IndexError or struct.error at the end."""

    def many(self, kind: str, count: int) -> Floats:
        """The next values; fewer at the end."""

    def table(self, element: Element, lengths: list[int]) -> list[Floats] | None:
        """All rows at once, a (rows, length) array a property, if every row has lists of these lengths."""

    def first_lengths(self, element: Element) -> list[int]:
        """Of the first row; 1 for a single value."""


def read_element(body: Body, element: Element, file: str, progress: Progress) -> dict[str, Column]:
    """The element's columns by name. Raises SceneInvalid where there are fewer rows than announced."""
    progress(f"{file}: reading {element.rows} of {element.name}")
    cut_off = f"{file}: element {element.name}: {element.rows} rows are announced, but they are not all there"
    if element.rows * body.least(element) > body.left():
        raise SceneInvalid(cut_off)
    if element.rows == 0 or not element.properties:
        return {p.name: Column(np.zeros(0), np.zeros(0, np.int64)) for p in element.properties}
    try:
        lengths = body.first_lengths(element)
        table = body.table(element, lengths)
        if table is not None:
            return {
                p.name: Column(values.reshape(-1), np.full(element.rows, length))
                for p, values, length in zip(element.properties, table, lengths, strict=True)
            }
        return _row_by_row(body, element, file, progress)
    except (IndexError, struct.error, EOFError) as error:
        raise SceneInvalid(cut_off) from error


def _row_by_row(body: Body, element: Element, file: str, progress: Progress) -> dict[str, Column]:
    values: list[list[Floats]] = [[] for _ in element.properties]
    lengths: list[list[int]] = [[] for _ in element.properties]
    for row in range(element.rows):
        if row % BEAT == 0:
            progress(f"{file}: reading {element.name}, {row} of {element.rows}")
        for number, p in enumerate(element.properties):
            length = 1 if p.length_kind is None else whole(body.number(p.length_kind))
            taken = body.many(p.kind, length)
            if len(taken) < length:
                raise EOFError
            values[number].append(taken)
            lengths[number].append(length)
    return {
        p.name: Column(np.concatenate(values[number]), np.array(lengths[number], np.int64))
        for number, p in enumerate(element.properties)
    }


def whole(value: float) -> int:
    """A list's length. IndexError for what is none: nothing after it can be read."""
    if not (value >= 0.0 and value == value // 1.0):
        raise IndexError
    return int(value)


class BinaryBody:
    """order: "<" or ">"."""

    def __init__(self, data: memoryview, order: str) -> None:
        self._data, self._order, self._at = data, order, 0

    def least(self, element: Element) -> int:
        return sum(np.dtype(p.length_kind or p.kind).itemsize for p in element.properties)

    def left(self) -> int:
        return len(self._data) - self._at

    def number(self, kind: str) -> float:
        (value,) = struct.unpack_from(self._order + _FORMATS[kind], self._data, self._at)
        self._at += np.dtype(kind).itemsize
        return float(value)

    def many(self, kind: str, count: int) -> Floats:
        dtype = np.dtype(self._order + kind)
        count = min(count, self.left() // dtype.itemsize)
        values = np.frombuffer(self._data, dtype, count, self._at).astype(np.float64)
        self._at += count * dtype.itemsize
        return values

    def table(self, element: Element, lengths: list[int]) -> list[Floats] | None:
        fields: list[tuple[str, str, tuple[int, ...]]] = []
        for number, (p, length) in enumerate(zip(element.properties, lengths, strict=True)):
            if p.length_kind is not None:
                fields.append((f"length {number}", self._order + p.length_kind, ()))
            fields.append((f"values {number}", self._order + p.kind, (length,)))
        size = sum(np.dtype(kind).itemsize * (shape[0] if shape else 1) for _, kind, shape in fields)
        if element.rows * size > self.left():
            return None
        rows = np.frombuffer(self._data, np.dtype(fields), element.rows, self._at)
        for number, (p, length) in enumerate(zip(element.properties, lengths, strict=True)):
            if p.length_kind is not None and (rows[f"length {number}"] != length).any():
                return None
        self._at += element.rows * size
        return [rows[f"values {number}"].astype(np.float64) for number in range(len(lengths))]

    def first_lengths(self, element: Element) -> list[int]:
        begin, lengths = self._at, []
        for p in element.properties:
            lengths.append(1 if p.length_kind is None else whole(self.number(p.length_kind)))
            self._at += lengths[-1] * np.dtype(p.kind).itemsize
        self._at = begin
        return lengths


class AsciiBody:
    """Numbers between white space. Raises SceneInvalid for what is no number."""

    def __init__(self, data: bytes, start: int, file: str, progress: Progress) -> None:
        parts = []
        while start < len(data):
            progress(f"{file}: reading numbers, byte {start} of {len(data)}")
            end = data.find(b"\n", start + TEXT_CHUNK) + 1 or len(data)
            try:
                parts.append(np.array(data[start:end].split(), np.float64))
            except ValueError as error:
                raise SceneInvalid(f"{file}: in bytes {start}..{end}: {str(error)[:80]}") from error
            start = end
        self._values: Floats = np.concatenate([np.zeros(0), *parts])
        self._at = 0

    def least(self, element: Element) -> int:
        return len(element.properties)

    def left(self) -> int:
        return len(self._values) - self._at

    def number(self, kind: str) -> float:
        self._at += 1
        return float(self._values[self._at - 1])

    def many(self, kind: str, count: int) -> Floats:
        values = self._values[self._at : self._at + count]
        self._at += count
        return values

    def table(self, element: Element, lengths: list[int]) -> list[Floats] | None:
        width = sum(lengths) + sum(p.length_kind is not None for p in element.properties)
        if element.rows * width > self.left():
            return None
        rows = self._values[self._at : self._at + element.rows * width].reshape(element.rows, width)
        columns, begin = [], 0
        for p, length in zip(element.properties, lengths, strict=True):
            if p.length_kind is not None:
                if (rows[:, begin] != length).any():
                    return None
                begin += 1
            columns.append(rows[:, begin : begin + length])
            begin += length
        self._at += element.rows * width
        return columns

    def first_lengths(self, element: Element) -> list[int]:
        begin, lengths = self._at, []
        for p in element.properties:
            lengths.append(1 if p.length_kind is None else whole(self.number(p.length_kind)))
            self._at += lengths[-1]
        self._at = begin
        return lengths
