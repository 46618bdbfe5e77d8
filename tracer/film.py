"""The film: additive sums per pixel, how they are stored, and how a picture is made of them.

A film is a float64 array (height, width, CHANNELS), row 0 on top. Its number of samples is kept beside it:
every pixel has the same.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracer.errors import FilmInvalid

# Channels. Sums over samples; a non-finite sample adds zero to them and one to NONFINITE.
RADIANCE = slice(0, 3)
SQUARES = slice(3, 6)
COVERAGE = 6
ALBEDO = slice(7, 10)
NORMAL = slice(10, 13)
DEPTH = 13  # over samples that hit something only
NONFINITE = 14
CHANNELS = 15

NO_DEPTH = np.float32(1e10)
"""Depth of a pixel in which nothing was hit."""

MAGIC = b"TESSERA-FILM 1\n"
DIGEST = 32
MAX_HEADER = 4096

Film = NDArray[np.float64]


def new_film(width: int, height: int) -> Film:
    return np.zeros((height, width, CHANNELS))


def encode_film(film: Film, *, sample_key: str, tile_id: str, samples: int) -> bytes:
    """Magic, one line of JSON, the sums as little-endian float64, sha256 over all before it.

    The same film gives the same bytes on every machine.
    """
    if film.dtype != np.float64 or film.ndim != 3 or film.shape[2] != CHANNELS:
        raise ValueError(f"not a film: {film.dtype} {film.shape}")
    header = {"samples": samples, "sample_key": sample_key, "shape": film.shape, "tile": tile_id}
    line = json.dumps(header, sort_keys=True, separators=(",", ":")).encode() + b"\n"
    body = MAGIC + line + np.ascontiguousarray(film, "<f8").tobytes()
    return body + hashlib.sha256(body).digest()


def decode_film(data: bytes, *, sample_key: str, tile_id: str, shape: tuple[int, int]) -> tuple[Film, int]:
    """(film, samples). shape is (height, width).

    Raises FilmInvalid where the data is damaged, cut off, or another tile's or frame's.
    """
    header, start = _header(data)
    film_shape = (*shape, CHANNELS)
    for name, wanted in (("sample_key", sample_key), ("tile", tile_id), ("shape", list(film_shape))):
        if header.get(name) != wanted:
            raise FilmInvalid(f"film {tile_id}: its {name} is {header.get(name)!r}, not {wanted!r}")
    samples = header.get("samples")
    if not isinstance(samples, int) or samples < 0:
        raise FilmInvalid(f"film {tile_id}: its number of samples is {samples!r}")
    payload = memoryview(data)[start:-DIGEST]
    if len(payload) != 8 * shape[0] * shape[1] * CHANNELS:
        raise FilmInvalid(f"film {tile_id}: {len(payload)} bytes do not fill {film_shape}")
    return np.frombuffer(payload, "<f8").reshape(film_shape).astype(np.float64), samples


def _header(data: bytes) -> tuple[dict[str, Any], int]:
    """The header of data that is whole, and where the payload starts."""
    if not data.startswith(MAGIC):
        raise FilmInvalid(f"not a film: {len(data)} bytes that do not begin as one")
    end = data.find(b"\n", len(MAGIC), len(MAGIC) + MAX_HEADER)
    if end < 0 or len(data) < end + 1 + DIGEST:
        raise FilmInvalid(f"film is cut off after {len(data)} bytes")
    if hashlib.sha256(memoryview(data)[:-DIGEST]).digest() != data[-DIGEST:]:
        raise FilmInvalid(f"film is damaged or cut off: the checksum of its {len(data)} bytes is wrong")
    try:
        header = json.loads(data[len(MAGIC) : end])
    except ValueError as error:
        raise FilmInvalid(f"film has no readable header: {error}") from error
    if not isinstance(header, dict):
        raise FilmInvalid("film has no readable header")
    return header, end + 1


def resolve(film_rows: Film, samples: int) -> dict[str, NDArray[np.float32]]:
    """EXR channel names to arrays (rows, width): means over the samples, variance of one sample.

    film_rows: (rows, width, CHANNELS). A is coverage; albedo and normal are weighted by it; Z is the mean
    distance along the view axis of the samples that hit something. Elementwise arithmetic only, so that the
    bytes are the same on every processor.
    """
    if samples < 1:
        raise ValueError("a picture needs at least one sample")
    n = float(samples)
    channels: dict[str, NDArray[Any]] = {}
    for k, name in enumerate("RGB"):
        total, squares = film_rows[..., RADIANCE][..., k], film_rows[..., SQUARES][..., k]
        channels[name] = total / n
        # Rounding may leave a little less than nothing.
        spread = np.maximum(squares - total * total / n, 0.0)
        channels[f"variance.{name}"] = spread / (n - 1.0) if samples > 1 else np.zeros_like(spread)
        channels[f"albedo.{name}"] = film_rows[..., ALBEDO][..., k] / n
    for k, name in enumerate("XYZ"):
        channels[f"normal.{name}"] = film_rows[..., NORMAL][..., k] / n
    hits = film_rows[..., COVERAGE]
    channels["A"] = hits / n
    channels["Z"] = np.where(hits > 0.0, film_rows[..., DEPTH] / np.maximum(hits, 1.0), NO_DEPTH)
    channels["samples"] = np.full(hits.shape, n)
    return {name: np.ascontiguousarray(values, np.float32) for name, values in channels.items()}
