"""Light from infinitely far away: a lat-long picture, looked up bilinearly and sampled by its brightness.

The density is constant by solid angle within a cell of the picture, and a cell's probability is the exact
integral of the bilinear brightness over it, so that no bright spot lies where the density is small.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tracer.kernels import device, entry, inlined
from tracer.kernels.borrow import borrowed
from tracer.kernels.layout import Sky
from tracer.kernels.mathematics import (
    PI,
    Vec3,
    arccosine,
    arctangent2,
    cos_sin_turns,
    lerp,
    luminance,
)


@inlined
def turned(sky: Sky, d: Vec3, sign: float) -> Vec3:
    """d turned about +Y by the environment's rotation (sign 1) or back (sign -1)."""
    c, s = sky.turn[0], sign * sky.turn[1]
    return (c * d[0] + s * d[2], d[1], c * d[2] - s * d[0])


@inlined
def picture_coordinates(sky: Sky, d: Vec3) -> tuple[float, float]:
    """(u, v) in [0, 1]: u = atan2(dx, -dz) / 2 pi mod 1, v = acos(dy) / pi."""
    x, y, z = turned(sky, d, -1.0)
    u = arctangent2(x, -z) * (0.5 / PI)
    return (u if u >= 0.0 else u + 1.0), arccosine(y) * (1.0 / PI)


@inlined
def _pixel(sky: Sky, x: int, y: int) -> Vec3:
    height, width = sky.pixels.shape[0], sky.pixels.shape[1]
    p = sky.pixels[min(max(y, 0), height - 1), x % width]
    return (float(p[0]), float(p[1]), float(p[2]))


@inlined
def _radiance(sky: Sky, u: float, v: float) -> Vec3:
    """The picture at (u, v), bilinearly."""
    height, width = sky.pixels.shape[0], sky.pixels.shape[1]
    x, y = math.floor(u * width - 0.5), math.floor(v * height - 0.5)
    fx, fy = u * width - 0.5 - x, v * height - 0.5 - y
    x0, y0 = int(x), int(y)
    a, b = _pixel(sky, x0, y0), _pixel(sky, x0 + 1, y0)
    c, e = _pixel(sky, x0, y0 + 1), _pixel(sky, x0 + 1, y0 + 1)
    return (
        lerp(lerp(a[0], b[0], fx), lerp(c[0], e[0], fx), fy),
        lerp(lerp(a[1], b[1], fx), lerp(c[1], e[1], fx), fy),
        lerp(lerp(a[2], b[2], fx), lerp(c[2], e[2], fx), fy),
    )


@inlined
def _is_plain(sky: Sky) -> bool:
    """The same everywhere: no angle needs to be known."""
    return bool(sky.pixels.shape[0] == 1 and sky.pixels.shape[1] == 1)


@inlined
def _cell_pdf(sky: Sky, row: int, column: int) -> float:
    """The density by solid angle in one cell."""
    width = sky.pixels.shape[1]
    probability = (sky.row_cdf[row + 1] - sky.row_cdf[row]) * (
        float(sky.column_cdf[row, column + 1]) - float(sky.column_cdf[row, column])
    )
    density: float = probability * width / (2.0 * PI * (sky.cos_edges[row] - sky.cos_edges[row + 1]))
    return density


@device
def sky_towards(sky: Sky, d: Vec3) -> tuple[Vec3, float]:
    """What arrives from direction d (unit, pointing away from the scene), and the density by solid angle with
    which `sample_sky` gives d."""
    sky = borrowed(sky)
    if _is_plain(sky):
        return _pixel(sky, 0, 0), _cell_pdf(sky, 0, 0)
    height, width = sky.pixels.shape[0], sky.pixels.shape[1]
    u, v = picture_coordinates(sky, d)
    pdf = _cell_pdf(sky, min(int(v * height), height - 1), min(int(u * width), width - 1))
    return _radiance(sky, u, v), pdf


@device
def sample_sky(sky: Sky, u: float, v: float) -> tuple[Vec3, Vec3, float]:
    """(direction, what arrives from there, the direction's density by solid angle)."""
    sky = borrowed(sky)
    width = sky.pixels.shape[1]
    row = find_interval(sky.row_cdf, u)
    columns = sky.column_cdf[row]
    column = find_interval(columns, v)
    down = (u - sky.row_cdf[row]) / (sky.row_cdf[row + 1] - sky.row_cdf[row])
    along = (v - columns[column]) / (float(columns[column + 1]) - float(columns[column]))
    cosine = lerp(sky.cos_edges[row], sky.cos_edges[row + 1], down)
    sine = math.sqrt(max(0.0, (1.0 - cosine) * (1.0 + cosine)))
    turns = (column + along) / width
    c, s = cos_sin_turns(turns)
    wi, pdf = turned(sky, (sine * s, cosine, -sine * c), 1.0), _cell_pdf(sky, row, column)
    if _is_plain(sky):
        return wi, _pixel(sky, 0, 0), pdf
    return wi, _radiance(sky, turns, arccosine(cosine) * (1.0 / PI)), pdf


@inlined
def find_interval(cdf: NDArray[np.floating], u: float) -> int:
    """The i with cdf[i] <= u < cdf[i + 1]; never an empty one, for u in [0, 1) and a cdf from 0 to 1."""
    low, high = 0, cdf.shape[0] - 1
    while high - low > 1:
        middle = (low + high) // 2
        if cdf[middle] <= u:
            low = middle
        else:
            high = middle
    return low


@entry
def fill_cell_rows(
    pixels: NDArray[np.float32],
    cos_edges: NDArray[np.float64],
    begin: int,
    end: int,
    row_weights: NDArray[np.float64],
    column_cdf: NDArray[np.float32],
) -> None:
    """Rows begin..end of the sampling tables: row_weights (h,) and column_cdf (h, w + 1).

    The integral of a linear interpolation over a cell is 3/4 of its own texel and 1/8 of each neighbour.
    """
    height, width = pixels.shape[0], pixels.shape[1]
    brightness = np.empty(width)
    sums = np.empty(width + 1)
    for row in range(begin, end):
        above, below = max(row - 1, 0), min(row + 1, height - 1)
        for x in range(width):
            brightness[x] = 0.125 * _brightness(pixels, above, x) + 0.125 * _brightness(pixels, below, x)
            brightness[x] += 0.75 * _brightness(pixels, row, x)
        sums[0] = 0.0
        for x in range(width):
            beside = brightness[(x + width - 1) % width] + brightness[(x + 1) % width]
            sums[x + 1] = sums[x] + 0.75 * brightness[x] + 0.125 * beside
        row_weights[row] = sums[width] * (cos_edges[row] - cos_edges[row + 1])
        total = sums[width] if sums[width] > 0.0 else 1.0
        for x in range(width + 1):
            column_cdf[row, x] = sums[x] / total


@inlined
def _brightness(pixels: NDArray[np.float32], row: int, x: int) -> float:
    return luminance((float(pixels[row, x, 0]), float(pixels[row, x, 1]), float(pixels[row, x, 2])))
