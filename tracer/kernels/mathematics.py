"""Vectors as tuples, and the transcendental functions that kernels need, made of + - * / and sqrt alone.

IEEE 754 rounds those five exactly, so that every machine gives the same bytes; libm's sin, acos and pow
do not. Called as `f.py_func` the same functions serve Python code that must agree with kernels.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from tracer.kernels import device, inlined

Vec3 = tuple[float, float, float]

PI = math.pi
INV_PI = 1.0 / math.pi


@inlined
def vector(field: Any) -> Vec3:
    """A field of three numbers of a record."""
    return (field[0], field[1], field[2])


@inlined
def add(a: Vec3, b: Vec3) -> Vec3:
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])


@inlined
def sub(a: Vec3, b: Vec3) -> Vec3:
    return (a[0] - b[0], a[1] - b[1], a[2] - b[2])


@inlined
def mul(a: Vec3, b: Vec3) -> Vec3:
    return (a[0] * b[0], a[1] * b[1], a[2] * b[2])


@inlined
def scale(a: Vec3, s: float) -> Vec3:
    return (a[0] * s, a[1] * s, a[2] * s)


@inlined
def dot(a: Vec3, b: Vec3) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@inlined
def cross(a: Vec3, b: Vec3) -> Vec3:
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


@inlined
def length(a: Vec3) -> float:
    return math.sqrt(dot(a, a))


@inlined
def normalize(a: Vec3) -> Vec3:
    return scale(a, 1.0 / length(a))


@inlined
def luminance(c: Vec3) -> float:
    """Rec.709."""
    return 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2]


@inlined
def lerp(a: float, b: float, t: float) -> float:
    return a * (1.0 - t) + b * t


class Frame(NamedTuple):
    """Three unit vectors at right angles, right-handed; n is the z axis of local coordinates."""

    s: Vec3
    t: Vec3
    n: Vec3


@inlined
def frame_of(n: Vec3) -> Frame:
    """A frame around n. T. Duff et al., "Building an Orthonormal Basis, Revisited", JCGT 6(1), 2017."""
    sign = math.copysign(1.0, n[2])
    a = -1.0 / (sign + n[2])
    b = n[0] * n[1] * a
    return Frame(
        (1.0 + sign * n[0] * n[0] * a, sign * b, -sign * n[0]), (b, sign + n[1] * n[1] * a, -n[1]), n
    )


@inlined
def to_local(frame: Frame, v: Vec3) -> Vec3:
    return (dot(v, frame.s), dot(v, frame.t), dot(v, frame.n))


@inlined
def to_world(frame: Frame, v: Vec3) -> Vec3:
    return add(add(scale(frame.s, v[0]), scale(frame.t, v[1])), scale(frame.n, v[2]))


@inlined
def cos_sin_turns(turns: float) -> tuple[float, float]:
    """(cos, sin) of 2 pi * turns; error below 3e-16 for a few turns.

    The nearest quarter turn is taken off exactly; Taylor series (Horner) on the remaining [-pi/4, pi/4]. Its
    coefficients are multiplied: a division costs as much as ten multiplications.
    """
    quarter = math.floor(4.0 * turns + 0.5)
    x = (turns - 0.25 * quarter) * (2.0 * PI)
    y = x * x
    s = 1.0 - y * (1.0 / 156.0) * (1.0 - y * (1.0 / 210.0) * (1.0 - y * (1.0 / 272.0)))
    s = 1.0 - y * (1.0 / 72.0) * (1.0 - y * (1.0 / 110.0) * s)
    s = x * (1.0 - y * (1.0 / 6.0) * (1.0 - y * (1.0 / 20.0) * (1.0 - y * (1.0 / 42.0) * s)))
    c = 1.0 - y * (1.0 / 132.0) * (1.0 - y * (1.0 / 182.0) * (1.0 - y * (1.0 / 240.0)))
    c = 1.0 - y * (1.0 / 56.0) * (1.0 - y * (1.0 / 90.0) * c)
    c = 1.0 - y * 0.5 * (1.0 - y * (1.0 / 12.0) * (1.0 - y * (1.0 / 30.0) * c))
    turn = int(quarter) & 3
    if turn == 0:
        return c, s
    if turn == 1:
        return -s, c
    if turn == 2:
        return -c, -s
    return s, -c


@inlined
def tangent(radians: float) -> float:
    c, s = cos_sin_turns(radians * (0.5 * INV_PI))
    return s / c


@device
def arctangent(x: float) -> float:
    """atan of x in [0, 1]; error below 4e-16. Two half-angle steps, then the Taylor series to x^21."""
    x = x / (1.0 + math.sqrt(1.0 + x * x))
    x = x / (1.0 + math.sqrt(1.0 + x * x))
    y = x * x
    s = 1.0 / 17.0 - y * (1.0 / 19.0 - y * (1.0 / 21.0))
    s = 1.0 / 9.0 - y * (1.0 / 11.0 - y * (1.0 / 13.0 - y * (1.0 / 15.0 - y * s)))
    s = 1.0 - y * (1.0 / 3.0 - y * (1.0 / 5.0 - y * (1.0 / 7.0 - y * s)))
    return 4.0 * x * s


@device
def arctangent2(y: float, x: float) -> float:
    """The angle of (x, y) in [-pi, pi]; 0 for (0, 0)."""
    ax, ay = abs(x), abs(y)
    if ax == 0.0 and ay == 0.0:
        return 0.0
    angle = arctangent(ay / ax) if ay <= ax else 0.5 * PI - arctangent(ax / ay)
    if x < 0.0:
        angle = PI - angle
    return math.copysign(angle, y)


@device
def arccosine(x: float) -> float:
    """acos, exact also near 1 and -1; values outside [-1, 1] count as the nearest end."""
    return arctangent2(math.sqrt(max(0.0, (1.0 - x) * (1.0 + x))), x)


@device
def exponential(x: float) -> float:
    """e^x for x <= 0; relative error below 1e-12. Taylor's series for x / 4096, squared twelve times."""
    if x < -700.0:
        return 0.0
    y = x * (1.0 / 4096.0)
    e = 1.0 + y * (1.0 / 10.0) * (1.0 + y * (1.0 / 11.0) * (1.0 + y * (1.0 / 12.0)))
    e = 1.0 + y * (1.0 / 7.0) * (1.0 + y * (1.0 / 8.0) * (1.0 + y * (1.0 / 9.0) * e))
    e = 1.0 + y * (1.0 / 4.0) * (1.0 + y * (1.0 / 5.0) * (1.0 + y * (1.0 / 6.0) * e))
    e = 1.0 + y * (1.0 + y * (1.0 / 2.0) * (1.0 + y * (1.0 / 3.0) * e))
    for _ in range(12):
        e *= e
    return e


@device
def logarithm(x: float) -> float:
    """ln x for x in (0, 1]; error below 1e-15 relative to max(1, |ln x|). Twice atanh((m - 1) / (m + 1))
    after powers of two are taken off exactly."""
    halvings = 0
    while x < 0.75:
        x *= 2.0
        halvings += 1
    z = (x - 1.0) / (x + 1.0)
    y, term, total = z * z, z, 0.0
    for k in range(12):
        total += term / (2.0 * k + 1.0)
        term *= y
    return 2.0 * total - halvings * 0.6931471805599453


@device
def srgb_to_linear(x: float) -> float:
    """The sRGB transfer function (IEC 61966-2-1), error below 1e-14.

    x^2.4 = x^2 (x^(1/5))^2, and the fifth root comes from Newton's iteration.
    """
    if x <= 0.04045:
        return x / 12.92
    x = (x + 0.055) / 1.055
    root = 0.3 + 0.7 * x
    for _ in range(24):
        power4 = root * root * root * root
        root -= (root * power4 - x) / (5.0 * power4)
    return x * x * root * root
