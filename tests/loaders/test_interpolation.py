"""Between the keys of an animation: the specification's curves, on plain numbers."""

from __future__ import annotations

import ast
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracer.loaders import interpolation
from tracer.loaders.interpolation import Moment, Values, cubic, find_moment, linear, normalized, slerp

UNIT = st.floats(0.0, 1.0)
ORDINARY = st.floats(-1e3, 1e3)
QUATERNION = st.tuples(*[st.floats(-1.0, 1.0)] * 4).filter(lambda q: max(map(abs, q)) > 1e-3)


def about(axis: Values, half: float) -> Values:
    """The quaternion of a rotation by twice `half`, in radians."""
    return (*(math.sin(half) * x for x in axis), math.cos(half))


def dot(a: Values, b: Values) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


@given(QUATERNION, st.floats(0.0, math.pi / 2), UNIT)
def test_slerp_turns_evenly_and_to_its_stated_error(q: Values, half: float, t: float) -> None:
    axis = normalized((*q[:3], 0.0)) if any(q[:3]) else (1.0, 0.0, 0.0, 0.0)
    found = slerp(about(axis[:3], 0.0), about(axis[:3], half), t)
    expected = about(axis[:3], t * half)
    assert max(abs(x - y) for x, y in zip(found, expected, strict=True)) < 1e-14


@pytest.mark.parametrize("half", [1e-3, 1e-6, 1e-9, 1e-12, 1e-15, 1e-200])
def test_slerp_keeps_its_digits_for_small_angles(half: float) -> None:
    found = slerp((0.0, 0.0, 0.0, 1.0), about((0.0, 1.0, 0.0), half), 0.25)
    assert found[1] == pytest.approx(math.sin(0.25 * half), rel=1e-12, abs=1e-170)


@given(QUATERNION, QUATERNION, UNIT)
def test_slerp_is_unit_and_takes_the_shorter_way(a: Values, b: Values, t: float) -> None:
    found = slerp(a, b, t)
    assert dot(found, found) == pytest.approx(1.0, abs=1e-14)
    assert found == slerp(a, tuple(-x for x in b), t) or abs(dot(normalized(a), normalized(b))) < 1e-15
    assert dot(normalized(a), found) > -1e-15  # never past a right angle: at most half a turn


def test_slerp_of_half_a_turn_has_a_way() -> None:
    """Keys a half turn apart are common, and rounding puts their product on either side of 0."""
    for w in (0.0, 4.5e-11, -4.5e-11):
        x, y, z, real = slerp((-0.0, -0.0, -0.0, -1.0), (1.0, 0.0, 0.0, w), 0.5)
        assert (abs(x), y, z, abs(real)) == pytest.approx((math.sqrt(0.5), 0, 0, math.sqrt(0.5)), abs=1e-10)


@given(ORDINARY, ORDINARY, UNIT, st.floats(1e-3, 1e3))
def test_cubic_without_tangents_eases(v: float, w: float, t: float, interval: float) -> None:
    (found,) = cubic((v,), (0.0,), (0.0,), (w,), Moment(0, t, interval))
    assert found == pytest.approx(v + (w - v) * t * t * (3.0 - 2.0 * t), abs=1e-9)


@given(st.tuples(*[st.floats(-9.0, 9.0)] * 4), st.floats(-3.0, 3.0), st.floats(1e-2, 5.0), UNIT)
def test_cubic_repeats_a_polynomial_from_its_ends(
    polynomial: Values, start: float, interval: float, t: float
) -> None:
    """Tangents are per second: were they not scaled by the interval, this would not fit."""
    p = np.polynomial.Polynomial(polynomial)
    ends = [(start, p, p.deriv()), (start + interval, p, p.deriv())]
    (v, leaving), (w, arriving) = [((float(f(at)),), (float(d(at)),)) for at, f, d in ends]
    (found,) = cubic(v, leaving, arriving, w, Moment(0, t, interval))
    assert found == pytest.approx(p(start + t * interval), abs=1e-9)


@given(ORDINARY, ORDINARY, UNIT)
def test_linear_stays_between_its_ends(a: float, b: float, t: float) -> None:
    (found,) = linear((a,), (b,), t)
    assert min(a, b) - 1e-9 <= found <= max(a, b) + 1e-9
    assert linear((a,), (b,), 0.0) == (a,)


@given(st.lists(st.floats(0.0, 100.0, width=32), min_size=1, unique=True), st.floats(-10.0, 110.0))
def test_a_moment_is_where_the_time_is(keys: list[float], time: float) -> None:
    keys.sort()
    moment = find_moment(keys, time, float(np.float32(time)))
    assert 0.0 <= moment.fraction <= 1.0
    reached = keys[moment.key] + moment.fraction * moment.interval
    assert reached == pytest.approx(min(max(time, keys[0]), keys[-1]), abs=1e-5)
    if moment.fraction:
        assert moment.interval == keys[moment.key + 1] - keys[moment.key]


@pytest.mark.parametrize("fps", [23.976, 24.0, 25.0, 29.97, 30.0, 60.0])
def test_a_key_stored_for_a_frame_is_reached_by_it(fps: float) -> None:
    """Half of all such keys are rounded up past their frame's exact time."""
    keys = [float(np.float32(frame / fps)) for frame in range(1000)]
    late = 0
    for frame in range(1000):
        time = frame / fps
        assert find_moment(keys, time, float(np.float32(time))).key == frame
        late += find_moment(keys, time, time).key < frame
    assert late > 100


def test_nothing_comes_from_the_platforms_libm() -> None:
    """Its last bits differ between machines; sqrt's do not."""
    source = Path(interpolation.__file__).read_text()
    used = {
        node.attr
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "math"
    }
    assert used == {"sqrt"}
    assert not any(isinstance(node, ast.Pow) for node in ast.walk(ast.parse(source)))
