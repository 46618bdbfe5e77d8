"""Encoded pictures: OpenEXR for what is published, PNG for looking at, NPY for computing with.

The same pixels give the same bytes, on any processor and however they are cut into bands: no clock, no
host name, no maths library that may round differently, no compressor whose matches depend on the
processor. Every file is written beside its target, synced, and renamed: a reader finds the old file or
the new one, never half of it.
"""

from __future__ import annotations

import os
import struct
import uuid
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from functools import cache
from math import log2
from pathlib import Path
from types import TracebackType
from typing import Any

import Imath
import numpy as np
import OpenEXR
from numpy.typing import NDArray
from PIL import Image, PngImagePlugin

Float32 = NDArray[np.float32]
Channels = Mapping[str, Float32]
"""EXR channel names ("R", "albedo.R", "Z") to arrays of (rows, width)."""

BAND_ROWS = 64
REC709 = (0.64, 0.33, 0.30, 0.60, 0.15, 0.06, 0.3127, 0.3290)
"""x and y of red, green, blue and white: ITU-R BT.709."""
MAX_STOPS = 100.0
MIDDLE_GREY = 0.18

_FLOAT = Imath.PixelType(Imath.PixelType.FLOAT)


class ImageInvalid(ValueError):
    """A picture is damaged, cut off, or not what it should be. The message names the file."""


@contextmanager
def replace_file(target: Path) -> Iterator[Path]:
    """Gives the path of a temporary file beside target; what was written there becomes target when the
    block ends, and is removed where an error ends it. Raises OSError."""
    temporary = _beside(target)
    try:
        yield temporary
        _commit(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


class ExrWriter:
    """Writes an EXR of 32-bit floats (ZIP, Rec.709) from the top row down; memory holds one band.

    The first band decides the channels; attributes become string attributes. Use it in a `with` block:
    the file appears when the block ends without an error. Raises ValueError for bands that do not fit or
    rows that are missing at the end, OSError for the disk's errors.
    """

    def __init__(self, path: Path, width: int, height: int, attributes: Mapping[str, str]) -> None:
        self._path, self._temporary = path, _beside(path)
        self._width, self._height = width, height
        self._attributes = dict(attributes)
        self._names: list[str] = []
        self._rows = 0
        self._file: Any = None

    def __enter__(self) -> ExrWriter:
        return self

    def write_rows(self, channels: Channels) -> None:
        """Appends rows, any number of them: every channel is (rows, width)."""
        arrays = {name: np.ascontiguousarray(band, np.float32) for name, band in channels.items()}
        if self._file is None:
            self._names = sorted(arrays)
            self._file = OpenEXR.OutputFile(str(self._temporary), self._header())
        # The library trusts sizes: it would read beyond the end of an array that is too short.
        shapes = {array.shape for array in arrays.values()}
        rows = min(shapes)[0]
        if sorted(arrays) != self._names or shapes != {(rows, self._width)}:
            raise ValueError(f"a band of this picture is {self._names}, each of (rows, {self._width})")
        if self._rows + rows > self._height:
            raise ValueError(f"row {self._rows + rows} of a picture of {self._height} rows")
        self._file.writePixels(arrays, rows)
        self._rows += rows

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._file is not None:
                self._file.close()
            if error is None:
                if self._rows != self._height:
                    raise ValueError(f"{self._path}: {self._rows} of {self._height} rows were written")
                _set_chromaticities(self._temporary)
                _commit(self._temporary, self._path)
        finally:
            self._temporary.unlink(missing_ok=True)

    def _header(self) -> dict[str, Any]:
        header: dict[str, Any] = OpenEXR.Header(self._width, self._height)
        header["channels"] = {name: Imath.Channel(_FLOAT) for name in self._names}
        header["compression"] = Imath.Compression(Imath.Compression.ZIP_COMPRESSION)
        header["chromaticities"] = Imath.Chromaticities(*[Imath.chromaticity(0.0, 0.0)] * 4)
        strings = {"software": "Tessera"} | self._attributes
        return header | {name: text.encode() for name, text in strings.items()}


def _set_chromaticities(path: Path) -> None:
    """OpenEXR's banded writer stores zeros, whatever it is given (3.5.3): the place is filled here."""
    marker = b"chromaticities\0chromaticities\0" + struct.pack("<i", 32)
    with open(path, "r+b") as file:
        at = file.read(1 << 16).find(marker)
        if at < 0:
            raise ImageInvalid(f"{path}: OpenEXR wrote no chromaticities")
        file.seek(at + len(marker))
        file.write(struct.pack("<8f", *REC709))


class ExrReader:
    """Reads an EXR in bands, as float32 whatever it holds. Of several parts, the first one.

    Raises ImageInvalid for files that are damaged, cut off, or have subsampled channels.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise ImageInvalid(f"{path}: no such file")
        self._path = path
        try:
            # InputFile reads bands, File cannot; but InputFile.header() crashes the process on an attribute
            # of a type that it does not know (3.5.3).
            header = OpenEXR.File(str(path), header_only=True).header()
            self._file = OpenEXR.InputFile(str(path))
            self.names: list[str] = sorted(channel.name for channel in header["channels"])
        except (OSError, RuntimeError, ValueError) as error:
            raise ImageInvalid(f"{path}: not a readable OpenEXR file: {error}") from error
        if not self._file.isComplete():
            raise ImageInvalid(f"{path}: rows are missing; the file was not written to its end")
        (left, self._top), (right, bottom) = (corner.tolist() for corner in header["dataWindow"])
        self.width, self.height = right - left + 1, bottom - self._top + 1
        self.attributes = {name: value for name, value in header.items() if isinstance(value, str)}
        if any((channel.xSampling, channel.ySampling) != (1, 1) for channel in header["channels"]):
            raise ImageInvalid(f"{path}: subsampled channels are not supported")

    def rows(self, first: int, count: int, names: Collection[str] | None = None) -> dict[str, Float32]:
        """Channels as (count, width) arrays; names of None: all. Raises KeyError for one it has not."""
        wanted = self.names if names is None else sorted(names)
        if missing := set(wanted) - set(self.names):
            raise KeyError(f"{self._path} has no channel {sorted(missing)}, only {self.names}")
        if first < 0 or count < 1 or first + count > self.height:
            raise ValueError(f"rows {first} to {first + count} of {self.height}")
        top = self._top + first
        try:
            bands = self._file.channels(wanted, _FLOAT, top, top + count - 1)
        except (OSError, RuntimeError, ValueError) as error:
            raise ImageInvalid(f"{self._path}: damaged or cut off: {error}") from error
        shape = (count, self.width)
        return {
            name: np.frombuffer(band, np.float32).reshape(shape)
            for name, band in zip(wanted, bands, strict=True)
        }

    def bands(self, names: Collection[str] | None = None) -> Iterator[dict[str, Float32]]:
        """The whole picture from the top down, BAND_ROWS at a time."""
        for first in range(0, self.height, BAND_ROWS):
            yield self.rows(first, min(BAND_ROWS, self.height - first), names)


def read_exr(path: Path, names: Collection[str] | None = None) -> tuple[dict[str, Float32], dict[str, str]]:
    """(channels as (height, width) arrays, string attributes). Raises as ExrReader does."""
    reader = ExrReader(path)
    return reader.rows(0, reader.height, names), reader.attributes


def verify_exr(
    path: Path, width: int, height: int, progress: Callable[[str], None] = lambda step: None
) -> None:
    """Decodes all of it; ImageInvalid where it is damaged, of another size, or not finite everywhere.

    progress is called for every band.

    Compressed blocks carry a checksum, blocks that did not shrink carry none: a flipped bit there is
    seen only by the hash that the manifest holds.
    """
    reader = ExrReader(path)
    if (reader.width, reader.height) != (width, height):
        raise ImageInvalid(f"{path}: {reader.width}x{reader.height} pixels, not {width}x{height}")
    for number, band in enumerate(reader.bands()):
        progress("verifying the picture")
        for name, values in band.items():
            if not np.isfinite(values).all():
                raise ImageInvalid(
                    f"{path}: channel {name} is not finite in rows from {number * BAND_ROWS} on"
                )


def same_pixels(left: Path, right: Path) -> bool:
    """Whether two EXR files hold the same channels with the same values, bit for bit. Raises ImageInvalid."""
    one, other = ExrReader(left), ExrReader(right)
    if (one.names, one.width, one.height) != (other.names, other.width, other.height):
        return False
    return all(
        band[name].tobytes() == twin[name].tobytes()
        for band, twin in zip(one.bands(), other.bands(), strict=True)
        for name in one.names
    )


def verify_png(path: Path) -> None:
    """Decodes all of it; ImageInvalid where it is damaged or cut off."""
    try:
        with Image.open(path, formats=("PNG",)) as image:
            image.load()
    except (OSError, SyntaxError, ValueError) as error:
        raise ImageInvalid(f"{path}: not a readable PNG file: {error}") from error


def to_srgb8(linear: Float32, stops: float = 0.0) -> NDArray[np.uint8]:
    """Linear Rec.709 values of any shape to bytes of sRGB (IEC 61966-2-1), 2**stops brighter.

    Rounded to the nearest byte, clamped to 0 and 255; NaN is 0. By a table of thresholds, because array
    powers give other last bits, and so now and then other bytes, on other processors.
    """
    if not abs(stops) <= MAX_STOPS:
        raise ValueError(f"exposure is in stops between {-MAX_STOPS:g} and {MAX_STOPS:g}, not {stops}")
    scale = np.float32(float(Decimal(2) ** Decimal(stops)))
    flat = np.ascontiguousarray(linear, np.float32).reshape(-1)
    result = np.empty(flat.shape, np.uint8)
    for start in range(0, flat.size, 1 << 20):  # searchsorted's result is eight times the bytes
        with np.errstate(over="ignore", invalid="ignore"):
            part = flat[start : start + (1 << 20)] * scale
        part[np.isnan(part)] = 0.0
        result[start : start + (1 << 20)] = np.searchsorted(_srgb_thresholds(), part, side="right")
    return result.reshape(linear.shape)


@cache
def _srgb_thresholds() -> Float32:
    """The linear value from which on each byte 1..255 is nearest: the inverse of sRGB's curve at half
    steps, in decimal arithmetic, which is the same everywhere."""
    thresholds = []
    for byte in range(1, 256):
        encoded = (Decimal(byte) - Decimal("0.5")) / 255
        if encoded <= Decimal("0.04045"):
            thresholds.append(encoded / Decimal("12.92"))
        else:
            thresholds.append(((encoded + Decimal("0.055")) / Decimal("1.055")) ** Decimal("2.4"))
    return np.array([float(t) for t in thresholds]).astype(np.float32)


def display_pixels(rgb: Float32, alpha: Float32 | None = None, stops: float = 0.0) -> NDArray[np.uint8]:
    """What a PNG shows. rgb: (rows, width, 3) linear. Without alpha: (rows, width, 3), the picture over
    black. With alpha (rows, width): (rows, width, 4) with straight alpha, as PNG wants it; the EXR's is
    associated, so colours are divided by it."""
    if alpha is None:
        return to_srgb8(rgb, stops)
    cover = np.clip(alpha.astype(np.float32), np.float32(0), np.float32(1))[..., None]
    straight = np.divide(rgb, cover, out=np.zeros_like(rgb, dtype=np.float32), where=cover > 0)
    alpha8 = np.rint(cover * np.float32(255)).astype(np.uint8)
    return np.concatenate([to_srgb8(straight, stops), alpha8], axis=-1)


def auto_exposure(rgb: Float32) -> float:
    """Stops that make the median luminance of the pixels that are not black MIDDLE_GREY: how a camera
    meters. To a hundredth, so that a logarithm's last bit does not matter; 0 for a black picture."""
    red, green, blue = (rgb[..., i].astype(np.float64) for i in range(3))
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    lit = luminance[np.isfinite(luminance) & (luminance > 0)]
    if not lit.size:
        return 0.0
    middle = lit.size // 2
    stops = round(log2(MIDDLE_GREY / float(np.partition(lit, middle)[middle])), 2)
    return min(MAX_STOPS, max(-MAX_STOPS, stops))


def write_png(path: Path, pixels: NDArray[np.uint8]) -> None:
    """pixels: (height, width, 3), or 4 with straight alpha; sRGB. Raises OSError.

    Run-length compression: Pillow's zlib-ng searches longer matches in ways that depend on the processor.
    """
    info = PngImagePlugin.PngInfo()
    info.add(b"sRGB", b"\0")  # rendering intent: perceptual
    with replace_file(path) as temporary:
        Image.fromarray(pixels).save(temporary, "PNG", pnginfo=info, compress_type=zlib.Z_RLE)


def write_npy(path: Path, rgb: Float32) -> None:
    """rgb: (height, width, 3), stored as little-endian float32 in row order. Raises OSError."""
    with replace_file(path) as temporary, open(temporary, "wb") as file:
        np.save(file, np.ascontiguousarray(rgb, "<f4"), allow_pickle=False)


def _beside(target: Path) -> Path:
    """Not derived from the target's name, which may be as long as the file system allows."""
    return target.parent / f".tessera-{uuid.uuid4().hex}"


def _commit(temporary: Path, target: Path) -> None:
    _sync(temporary)
    os.replace(temporary, target)
    _sync(target.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
