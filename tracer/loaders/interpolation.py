"""Values between the keys of an animation (glTF 2.0, appendix C), on plain Python numbers.

Everything here is made of + - * / and sqrt, which IEEE 754 rounds exactly, and of the tracer's own
arctangent, sine and cosine, which are made of the same: a frame's scene is the same on every processor,
whatever its libm says.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from tracer.kernels import in_python
from tracer.kernels.mathematics import PI, arctangent, cos_sin_turns

Values = tuple[float, ...]
"""A translation or a scale (x, y, z), or a rotation as a quaternion (x, y, z, w)."""
_arctangent, _cos_sin = in_python(arctangent), in_python(cos_sin_turns)


class Moment(NamedTuple):
    """Where a time falls among keys: so much of the way, in 0 .. 1, from a key to the next one.

    interval: seconds between those two. Before the first key and from the last one on, fraction is 0.
    """

    key: int
    fraction: float = 0.0
    interval: float = 0.0


def find_moment(keys: Sequence[float], time: float, stored_time: float) -> Moment:
    """keys: seconds, rising. stored_time: time rounded as the keys were when they were stored.

    A key that stands for this very frame counts as reached although its rounding moved it past the frame's
    exact time: otherwise a STEP would come one frame late.
    """
    key = bisect_right(keys, stored_time) - 1
    if key < 0:
        return Moment(0)
    if key == len(keys) - 1:
        return Moment(key)
    interval = keys[key + 1] - keys[key]
    return Moment(key, max(0.0, time - keys[key]) / interval, interval)


def linear(a: Values, b: Values, t: float) -> Values:
    return tuple((1.0 - t) * x + t * y for x, y in zip(a, b, strict=True))


def slerp(a: Values, b: Values, t: float) -> Values:
    """The shortest way from a to b, which need not be unit but not zero. Unit; error below 1e-14.

    The specification takes the angle as acos |a . b|, which loses half of its digits for small angles.
    Here it is 2 atan(|a - b| / |a + b|) (W. Kahan), whose argument is in 0 .. 1 since a . b >= 0.
    """
    a, b = normalized(a), normalized(b)
    if _dot(a, b) < 0.0:
        b = tuple(-y for y in b)
    difference = tuple(x - y for x, y in zip(a, b, strict=True))
    total = tuple(x + y for x, y in zip(a, b, strict=True))
    angle = 2.0 * _arctangent(math.sqrt(_dot(difference, difference) / _dot(total, total)))
    if angle == 0.0:
        return a
    from_a, from_b = _sine((1.0 - t) * angle), _sine(t * angle)
    return normalized(tuple(from_a * x + from_b * y for x, y in zip(a, b, strict=True)))


def cubic(v: Values, leaving: Values, arriving: Values, w: Values, moment: Moment) -> Values:
    """The Hermite spline from v to w. leaving, arriving: v's out-tangent and w's in-tangent, per second."""
    t, seconds = moment.fraction, moment.interval
    t2, t3 = t * t, t * t * t
    return tuple(
        (2.0 * t3 - 3.0 * t2 + 1.0) * v_
        + seconds * (t3 - 2.0 * t2 + t) * out
        + (3.0 * t2 - 2.0 * t3) * w_
        + seconds * (t3 - t2) * into
        for v_, out, into, w_ in zip(v, leaving, arriving, w, strict=True)
    )


def normalized(q: Values) -> Values:
    """Raises ZeroDivisionError where q is 0."""
    largest = max(abs(x) for x in q)  # keeps the squares inside float64
    q = tuple(x / largest for x in q)
    length = math.sqrt(_dot(q, q))
    return tuple(x / length for x in q)


def _dot(a: Values, b: Values) -> float:
    """Of quaternions, without sum(), which rounds otherwise from Python 3.12 on."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3]


def _sine(radians: float) -> float:
    return _cos_sin(radians / (2.0 * PI))[1]
