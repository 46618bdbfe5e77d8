"""Our own transcendental functions against the platform's, which are right but differ between machines."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracer.kernels import in_python
from tracer.kernels import mathematics as m

cos_sin = in_python(m.cos_sin_turns)


@given(st.floats(-1.0, 1.0))
def test_cos_and_sin_of_turns(turns: float) -> None:
    c, s = cos_sin(turns)
    assert c == pytest.approx(math.cos(2.0 * math.pi * turns), abs=1e-15)
    assert s == pytest.approx(math.sin(2.0 * math.pi * turns), abs=1e-15)


def test_quarter_turns_are_exact() -> None:
    assert [cos_sin(q / 4.0) for q in range(5)] == [(1, 0), (0, 1), (-1, 0), (0, -1), (1, 0)]


@given(st.floats(-4.0, 4.0), st.floats(-4.0, 4.0))
def test_arctangent2(y: float, x: float) -> None:
    angle = m.arctangent2(y, x)
    expected = math.atan2(y, x)
    # Which end of the cut at pi a signed zero belongs to does not matter to a direction.
    assert min(abs(angle - expected), abs(abs(angle - expected) - 2.0 * math.pi)) < 2e-15 or (x == y == 0.0)


@given(st.floats(-1.0, 1.0))
def test_arccosine(x: float) -> None:
    assert m.arccosine(x) == pytest.approx(math.acos(x), abs=1e-15)


@given(st.floats(-3.0, 3.0))
def test_arccosine_outside_is_an_end(excess: float) -> None:
    assert m.arccosine(math.copysign(1.0 + abs(excess), excess)) in (0.0, math.pi)


@given(st.floats(0.01, 1.5))
def test_tangent(angle: float) -> None:
    assert m.tangent(angle) == pytest.approx(math.tan(angle), rel=1e-13)


@given(st.floats(0.0, 16.0))
def test_srgb_to_linear(x: float) -> None:
    expected = x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4
    assert m.srgb_to_linear(x) == pytest.approx(expected, rel=1e-12, abs=1e-15)


@given(st.floats(-1.0, 1.0), st.floats(0.0, 1.0))
def test_a_tangent_frame_is_right_handed_and_unit(z: float, turns: float) -> None:
    c, s = cos_sin(turns)
    r = math.sqrt(1.0 - z * z)
    n = (r * c, r * s, z)
    frame = m.frame_of(n)
    for u, v, w in ((frame.s, frame.t, n), (frame.t, n, frame.s)):
        assert m.cross(u, v) == pytest.approx(w, abs=1e-12)
    there = m.to_local(frame, (0.1, 0.2, 0.3))
    assert m.to_world(frame, there) == pytest.approx((0.1, 0.2, 0.3), abs=1e-12)
