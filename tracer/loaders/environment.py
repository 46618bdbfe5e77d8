"""Environment pictures (lat-long): Radiance .hdr, OpenEXR .exr, and .npy without pickled objects."""

from __future__ import annotations

import io
import math
import re
import tempfile
from pathlib import Path
from tokenize import TokenError

import numpy as np
from numpy.typing import NDArray

from tracer.errors import SceneInvalid, SceneUnsupported
from tracer.images import ExrReader, ImageInvalid
from tracer.limits import Limits
from tracer.references import shorten
from tracer.scene import SceneFiles

Float32 = NDArray[np.float32]

MAX_HEADER = 1 << 16
SCALES = np.array([0.0] + [math.ldexp(1.0, exponent - 136) for exponent in range(1, 256)])
"""What a mantissa of RGBE is multiplied with, by its exponent: exact powers of two (Ward 1991)."""
OLD_WIDTHS = (8, 0x7FFF)
"""Widths between which scanlines may be run-length encoded by channel; others are in the old encoding."""


def load_environment(path: str, files: SceneFiles, limits: Limits) -> Float32:
    """(h, w, 3) linear radiance, finite and not negative; row 0 is up, as the file has it.

    Raises SceneInvalid for a damaged file or values that are not finite, SceneUnsupported for another kind
    of file or too large a picture, AssetMissing.
    """
    readers = {".hdr": _read_hdr, ".exr": _read_exr, ".npy": _read_npy}
    kind = Path(path).suffix.lower()
    if kind not in readers:
        raise SceneUnsupported(f"{path}: not an environment that can be read; known are {' '.join(readers)}")
    pixels = readers[kind](files.read(path), path, limits)
    if not np.isfinite(pixels).all():
        row, column = np.argwhere(~np.isfinite(pixels).all(axis=2))[0].tolist()
        raise SceneInvalid(f"{path}: row {row}, column {column}: not finite (NaN or infinite)")
    # What resampling left below zero is no light.
    lit: Float32 = np.maximum(pixels, np.float32(0.0))
    return lit


def _admit(width: int, height: int, path: str, limits: Limits) -> None:
    if width < 1 or height < 1:
        raise SceneInvalid(f"{path}: {width}x{height} pixels")
    if width * height > limits.texture_pixels:
        raise SceneUnsupported(
            f"{path}: {width}x{height} pixels; at most {limits.texture_pixels} are read; make it smaller"
        )


def _read_npy(data: bytes, path: str, limits: Limits) -> Float32:
    """The header is compared with what is there: np.load would first allocate what is announced."""
    stream = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(stream)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"version {version}")
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, fortran, dtype = read[version](stream)
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, TokenError) as error:
        raise SceneInvalid(f"{path}: header: not a NumPy array: {shorten(str(error))}") from error
    if len(shape) != 3 or shape[2] != 3 or dtype.kind != "f" or dtype.itemsize > 8:
        raise SceneInvalid(f"{path}: header: {dtype} {shape}; floats of shape (height, width, 3) are wanted")
    _admit(shape[1], shape[0], path, limits)
    body = data[stream.tell() :]
    size = shape[0] * shape[1] * 3 * dtype.itemsize
    if len(body) < size:
        raise SceneInvalid(f"{path}: {size} bytes are announced, but {len(body)} are there")
    array = np.frombuffer(body, dtype, size // dtype.itemsize)
    array = array.reshape(shape[::-1]).T if fortran else array.reshape(shape)
    with np.errstate(over="ignore", invalid="ignore"):  # the caller refuses what is not finite
        return np.ascontiguousarray(array, np.float32)


def _read_exr(data: bytes, path: str, limits: Limits) -> Float32:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "environment.exr"
        file.write_bytes(data)
        try:
            reader = ExrReader(file)
            _admit(reader.width, reader.height, path, limits)
            names = "RGB" if set("RGB") <= set(reader.names) else "YYY"
            if names[0] not in reader.names:
                raise SceneInvalid(f"{path}: has channels {' '.join(reader.names)[:80]}, but no R, G and B")
            channels = reader.rows(0, reader.height, set(names))
        except ImageInvalid as error:
            # The library's words hold the temporary file's name.
            raise SceneInvalid(f"{path}: {str(error).replace(str(file), '').strip(': ')}") from error
    return np.stack([channels[name] for name in names], axis=2)


def _read_hdr(data: bytes, path: str, limits: Limits) -> Float32:
    """Radiance RGBE, run-length encoded or not. EXPOSURE is not applied, as no other reader does."""
    end = data.find(b"\n\n", 0, MAX_HEADER)
    line_end = data.find(b"\n", end + 2, end + 100)
    if data[:2] != b"#?" or end < 0 or line_end < 0:
        raise SceneInvalid(f"{path}: header: not a Radiance picture")
    header = data[:end].decode("latin-1").split("\n")
    kinds = [line.partition("=")[2].strip() for line in header if line.startswith("FORMAT")]
    if kinds and kinds[-1] != "32-bit_rle_rgbe":
        raise SceneUnsupported(f"{path}: header: FORMAT {shorten(kinds[-1])}; only 32-bit_rle_rgbe is read")
    size = data[end + 2 : line_end].decode("latin-1")
    match = re.fullmatch(r"-Y (\d{1,9}) \+X (\d{1,9})\s*", size)
    if match is None:
        raise SceneUnsupported(f"{path}: header: {shorten(size)}; only -Y height +X width is read")
    height, width = int(match[1]), int(match[2])
    _admit(width, height, path, limits)
    reader = _Scanlines(data, line_end + 1, path)
    rows = [_radiance(reader.read(width, row)) for row in range(height)]
    return np.stack(rows)


def _radiance(rgbe: NDArray[np.uint8]) -> Float32:
    """(w, 3) of (w, 4)."""
    radiance: Float32 = (rgbe[:, :3] * SCALES[rgbe[:, 3]][:, None]).astype(np.float32)
    return radiance


class _Scanlines:
    """Rows of RGBE, each encoded as the row itself says. Raises SceneInvalid naming the row."""

    def __init__(self, data: bytes, start: int, path: str) -> None:
        self._data, self._at, self._path = data, start, path

    def read(self, width: int, row: int) -> NDArray[np.uint8]:
        """(width, 4)"""
        try:
            head = self._data[self._at : self._at + 4]
            announced = (head[2] << 8) | head[3]
            if OLD_WIDTHS[0] <= width <= OLD_WIDTHS[1] and head[:2] == b"\2\2" and announced == width:
                self._at += 4
                channels = [self._channel(width) for _ in range(4)]
                rgbe = np.frombuffer(b"".join(channels), np.uint8).reshape(4, width).T
            else:
                rgbe = np.frombuffer(self._old(width), np.uint8).reshape(width, 4)
        except IndexError as error:
            raise SceneInvalid(f"{self._path}: row {row}: cut off or damaged") from error
        return rgbe

    def _channel(self, width: int) -> bytes:
        """One channel of a row: runs (128 + n, value) and plain pieces (n, n values)."""
        channel = bytearray()
        while len(channel) < width:
            code = self._data[self._at]
            if code > 128:
                channel += self._data[self._at + 1 : self._at + 2] * (code - 128)
                self._at += 2
            else:
                channel += self._data[self._at + 1 : self._at + 1 + code]
                self._at += 1 + code
            if code == 0 or self._at > len(self._data):
                raise IndexError
        if len(channel) != width:
            raise IndexError
        return bytes(channel)

    def _old(self, width: int) -> bytes:
        """Whole pixels; (1, 1, 1, n) repeats the one before n times, and a next one 256 n times."""
        row, shift = bytearray(), 0
        while len(row) < 4 * width:
            pixel = self._data[self._at : self._at + 4]
            self._at += 4
            if len(pixel) < 4:
                raise IndexError
            if pixel[:3] == b"\1\1\1":
                if not row or shift > 16 or (pixel[3] << shift) > width:
                    raise IndexError
                row += row[-4:] * (pixel[3] << shift)
                shift += 8
            else:
                row += pixel
                shift = 0
        if len(row) != 4 * width:
            raise IndexError
        return bytes(row)
