"""Textures: glTF's samplers, bilinear or nearest, without mip maps (pixels are supersampled instead)."""

from __future__ import annotations

import math

from tracer.kernels import device, inlined
from tracer.kernels.borrow import borrowed
from tracer.kernels.layout import Record, Textures
from tracer.kernels.mathematics import Vec3, lerp
from tracer.scene import Wrap

REPEAT, CLAMP = int(Wrap.REPEAT), int(Wrap.CLAMP)

Vec4 = tuple[float, float, float, float]
TexCoords = tuple[float, float, float, float]
"""(u0, v0, u1, v1): both sets of texture coordinates at a point."""


@inlined
def wrap(i: int, size: int, mode: int) -> int:
    """The texel that stands for number i, which may lie outside."""
    if mode == REPEAT:
        return i % size
    if mode == CLAMP:
        return min(max(i, 0), size - 1)
    i = i % (2 * size)
    return i if i < size else 2 * size - 1 - i


@inlined
def texel(textures: Textures, image: Record, srgb: int, x: int, y: int) -> Vec4:
    i = image.first + wrap(y, image.height, image.wrap_v) * image.width + wrap(x, image.width, image.wrap_u)
    if image.is_float:
        t = textures.floats[i]
        return (float(t[0]), float(t[1]), float(t[2]), float(t[3]))
    b, decode = textures.bytes[i], textures.decode
    return (
        float(decode[srgb, b[0]]),
        float(decode[srgb, b[1]]),
        float(decode[srgb, b[2]]),
        float(decode[0, b[3]]),
    )


@inlined
def _indexable(x: float) -> float:
    """x, but 0 for what no texel index can hold: NaN, infinities, and where no digit is left for texels."""
    return x if -1e9 < x < 1e9 else 0.0


@device
def look_up(textures: Textures, use: int, at: TexCoords) -> Vec4:
    """The decoded, linear RGBA of texture use number `use` at these texture coordinates."""
    textures = borrowed(textures)
    use_record = textures.uses[use]
    image = textures.images[use_record.image]
    m, srgb = use_record.transform, use_record.srgb
    s, t = (at[0], at[1]) if use_record.texcoord == 0 else (at[2], at[3])
    u = _indexable(m[0] * s + m[1] * t + m[2]) * image.width
    v = _indexable(m[3] * s + m[4] * t + m[5]) * image.height
    if not image.linear_filter:
        return texel(textures, image, srgb, math.floor(u), math.floor(v))
    x, y = math.floor(u - 0.5), math.floor(v - 0.5)
    fx, fy = u - 0.5 - x, v - 0.5 - y
    x0, y0 = int(x), int(y)
    a, b = texel(textures, image, srgb, x0, y0), texel(textures, image, srgb, x0 + 1, y0)
    c, d = texel(textures, image, srgb, x0, y0 + 1), texel(textures, image, srgb, x0 + 1, y0 + 1)
    return (
        lerp(lerp(a[0], b[0], fx), lerp(c[0], d[0], fx), fy),
        lerp(lerp(a[1], b[1], fx), lerp(c[1], d[1], fx), fy),
        lerp(lerp(a[2], b[2], fx), lerp(c[2], d[2], fx), fy),
        lerp(lerp(a[3], b[3], fx), lerp(c[3], d[3], fx), fy),
    )


@inlined
def textured(textures: Textures, use: int, at: TexCoords, factor: Vec3) -> Vec3:
    """factor times the texture's colour; the factor alone where use is -1."""
    if use < 0:
        return factor
    c = look_up(textures, use, at)
    return (factor[0] * c[0], factor[1] * c[1], factor[2] * c[2])
