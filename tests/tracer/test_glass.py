"""Light through surfaces: Snell, Fresnel, energy, reciprocity, and the pictures that have a closed form."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tracer.test_bsdf import WHITE, Array, direction, evaluate_many, hemisphere, make, sample_many
from tests.tracer.worlds import SKY, facing_quad, lambert, look, picture, sphere, world
from tracer.kernels import bsdf, glass
from tracer.kernels.mathematics import exponential, logarithm
from tracer.scene import Material

IOR = 1.5
F0 = ((IOR - 1.0) / (IOR + 1.0)) ** 2
GLASSES: dict[str, tuple[Any, ...]] = {
    "thin": (WHITE, 0.0, 0.3, F0, 1.0, WHITE, 1.0, 0.0),
    "thin half": ((0.8, 0.4, 0.2), 0.0, 0.6, F0, 1.0, WHITE, 0.5, 0.0),
    "entering": (WHITE, 0.0, 0.8, F0, 1.0, WHITE, 1.0, IOR),
    "leaving": (WHITE, 0.0, 0.8, F0, 1.0, WHITE, 1.0, 1.0 / IOR),
    "entering half": ((0.9, 0.5, 0.3), 0.2, 0.7, F0, 1.0, WHITE, 0.5, IOR),
    "leaving rough": ((0.9, 0.5, 0.3), 0.0, 0.9, F0, 1.0, WHITE, 1.0, 1.0 / IOR),
    "diamond": (WHITE, 0.0, 0.5, 0.172, 1.0, WHITE, 1.0, 2.42),
}
ANGLES = [0.0, 0.6, 1.2]


def whole_sphere(n: int) -> tuple[Array, float]:
    up, solid = hemisphere(n)
    return np.concatenate([up, up * np.array([1.0, 1.0, -1.0])]), solid


@pytest.mark.parametrize("name", GLASSES)
@pytest.mark.parametrize("angle", ANGLES)
def test_samples_are_distributed_as_the_pdf_says(name: str, angle: float) -> None:
    """Chi-squared over 2 x 8 x 16 cells of the whole sphere."""
    b, wo, rows, columns, fine, n = make(*GLASSES[name]), direction(angle), 8, 16, 96, 100_000
    s = np.empty((n, 7))
    sample_many(b, wo, np.random.default_rng(7).random((n, 3)), s)
    wi = s[s[:, 6] > 0.0, :3]
    row = np.minimum((np.abs(wi[:, 2]) * rows).astype(int), rows - 1) + rows * (wi[:, 2] < 0.0)
    column = (np.arctan2(wi[:, 1], wi[:, 0]) / (2 * np.pi) % 1.0 * columns).astype(int) % columns
    counts = np.bincount(row * columns + column, minlength=2 * rows * columns)
    w, solid = whole_sphere(rows * fine)
    out = np.empty((len(w), 4))
    evaluate_many(b, wo, w, out)
    cells = out[:, 3].reshape(2 * rows, fine, columns, fine).sum(axis=(1, 3)).ravel() * solid * n
    usable = cells > 20
    error = 0.01 * cells  # of the numerical integral itself
    chi2 = ((counts - cells)[usable] ** 2 / (cells + error**2)[usable]).sum()
    assert chi2 < usable.sum() + 5 * np.sqrt(2 * usable.sum())


@pytest.mark.parametrize("name", GLASSES)
def test_a_sample_carries_its_own_value_and_pdf(name: str) -> None:
    b, wo = make(*GLASSES[name]), direction(0.8)
    s = np.empty((1000, 7))
    sample_many(b, wo, np.random.default_rng(3).random((len(s), 3)), s)
    s = s[s[:, 6] > 0.0]
    assert (s[:, 2] < 0.0).any() and (s[:, 2] > 0.0).any()
    out = np.empty((len(s), 4))
    evaluate_many(b, wo, np.ascontiguousarray(s[:, :3]), out)
    np.testing.assert_allclose(s[:, 3:], out, rtol=1e-12)


@pytest.mark.parametrize("name", GLASSES)
@pytest.mark.parametrize("angle", ANGLES)
def test_energy(name: str, angle: float) -> None:
    """Of what arrives from everywhere alike no more leaves; smooth white glass loses nothing. On the denser
    side radiance is eta^2 times as large."""
    material = list(GLASSES[name])
    for roughness in (material[2], 0.03):
        material[2] = roughness
        b, eta = make(*material), float(material[7])
        s = np.empty((200_000, 7))
        sample_many(b, direction(angle), np.random.default_rng(1).random((len(s), 3)), s)
        s = s[s[:, 6] > 0.0]
        denser = np.where(s[:, 2] < 0.0, eta * eta if eta else 1.0, 1.0)
        weights = s[:, 3:6] * (np.abs(s[:, 2]) * denser / s[:, 6])[:, None]
        total = weights.sum(axis=0) / 200_000
        assert (total <= 1.0 + 0.01).all(), total
        if roughness == 0.03 and material[0] == WHITE and material[6] == 1.0:
            assert total == pytest.approx([1.0] * 3, abs=0.01)


@settings(max_examples=200)
@given(
    st.floats(0.2, 1.0), st.floats(1.01, 2.5), st.floats(0.01, 1.5), st.floats(0.01, 1.5), st.floats(0.0, 1.0)
)
def test_reciprocity_across_the_surface(
    roughness: float, ior: float, a: float, b: float, turn: float
) -> None:
    """f(wo, wi) n_i^2 from one side is f(wi, wo) n_o^2 from the other (Walter et al. 2007)."""
    f0 = ((ior - 1.0) / (ior + 1.0)) ** 2
    entering = make(WHITE, 0.0, roughness, f0, 1.0, WHITE, 1.0, ior)
    leaving = make(WHITE, 0.0, roughness, f0, 1.0, WHITE, 1.0, 1.0 / ior)
    wo, wi = direction(a), direction(b, turn * 6.0)
    below = (wi[0], wi[1], -wi[2])
    there, _ = bsdf.evaluate(entering, wo, below)
    # The same two directions, seen from the other side: the frame is turned over.
    back, _ = bsdf.evaluate(leaving, (wi[0], wi[1], wi[2]), (wo[0], wo[1], -wo[2]))
    assert all(0.0 <= x < math.inf for x in there)
    np.testing.assert_allclose(np.array(there) * ior**2, back, rtol=1e-6, atol=1e-12)


@given(st.floats(1.001, 3.0), st.floats(0.0, 1.57))
def test_snell_and_total_reflection(ior: float, angle: float) -> None:
    up = (0.0, 0.0, 1.0)
    entered = glass.refract(direction(angle), up, ior)
    assert math.hypot(entered[0], entered[1]) * ior == pytest.approx(math.sin(angle), abs=1e-12)
    assert entered[2] < 0.0
    left = glass.refract(direction(angle), up, 1.0 / ior)
    if math.sin(angle) * ior >= 1.0:
        assert left == (0.0, 0.0, 0.0)
        assert glass.fresnel_weight(1.0 / ior, math.cos(angle)) == 2.0
    else:
        assert math.hypot(left[0], left[1]) == pytest.approx(math.sin(angle) * ior, abs=1e-9)


@given(st.floats(1.1, 2.5), st.floats(0.0, 1.55))
def test_fresnel_is_exact_on_both_sides(ior: float, angle: float) -> None:
    """Against the formulas in angles; from within, the same value at the refracted angle."""
    inside = math.asin(math.sin(angle) / ior)
    if angle < 1e-6:
        expected = ((ior - 1.0) / (ior + 1.0)) ** 2
    else:
        s = (math.sin(angle - inside) / math.sin(angle + inside)) ** 2
        p = (math.tan(angle - inside) / math.tan(angle + inside)) ** 2
        expected = 0.5 * (s + p)
    f0 = ((ior - 1.0) / (ior + 1.0)) ** 2
    for eta, at in ((ior, angle), (1.0 / ior, inside)):
        weight = glass.fresnel_weight(eta, math.cos(at))
        assert f0 + (1.0 - f0) * weight == pytest.approx(expected, abs=1e-6)


@given(st.floats(-800.0, 0.0))
def test_exponential(x: float) -> None:
    assert exponential(x) == pytest.approx(math.exp(x), rel=1e-12, abs=1e-300)


@given(st.floats(1e-300, 1.0))
def test_logarithm(x: float) -> None:
    assert logarithm(x) == pytest.approx(math.log(x), rel=1e-15, abs=1e-15)


# --- pictures -----------------------------------------------------------------------------------


STRAIGHT = look((0.0, 0.0, 5.0), fov=1.0)


def glass_of(**more: Any) -> Material:
    defaults: dict[str, Any] = {"metallic": 0.0, "roughness": 0.0, "transmission": 1.0, "thickness": 1.0}
    return Material(**(defaults | more))


@pytest.mark.parametrize("roughness", [0.0, 0.3])
def test_white_glass_vanishes_in_a_white_world(roughness: float) -> None:
    """The furnace: what does not absorb shows the same radiance everywhere. Rough facets lose a little, since
    light that strikes a second one is not followed."""
    scene = world([sphere(4, smooth=True)], [glass_of(roughness=roughness)], **SKY)
    mean = picture(scene, 64, max_depth=64).mean(axis=(0, 1))
    assert mean == pytest.approx([1.0] * 3, abs=0.002 if roughness == 0.0 else 0.06)


def test_a_slab_absorbs_by_beer_and_lambert() -> None:
    """Straight through a slab of thickness 2 of ior 1: the colour after one unit, squared."""
    material = glass_of(ior=1.0, attenuation_distance=1.0, attenuation_color=(0.9, 0.5, 0.1))
    front, back = facing_quad(z=1.0, half=50.0), facing_quad(z=-1.0, half=50.0)
    back = replace(back, triangles=back.triangles[:, ::-1].copy())
    scene = world([front, back], [material], camera=STRAIGHT, **SKY)
    mean = picture(scene, 16, max_depth=8).mean(axis=(0, 1))
    assert mean == pytest.approx([0.81, 0.25, 0.01], rel=0.01)


def test_a_thin_wall_shows_what_is_behind_it_tinted() -> None:
    wall = facing_quad(z=1.0, half=50.0)
    behind = facing_quad(z=0.0, half=50.0, material=1)
    pane = glass_of(thickness=0.0, base_color=(0.5, 1.0, 0.25, 1.0), ior=1.0001, double_sided=True)
    light = lambert(0, 0, 0, emissive=(2.0, 2.0, 2.0))
    scene = world([wall, behind], [pane, light], camera=STRAIGHT)
    mean = picture(scene, 16, max_depth=4).mean(axis=(0, 1))
    assert mean == pytest.approx([1.0, 2.0, 0.5], rel=0.01)


def test_opaque_things_in_glass_are_seen_through_it() -> None:
    """A white ball in absorbing glass: the way in and the way out are both attenuated."""
    outer = sphere(3, smooth=True)
    inner = sphere(3, material=1, radius=0.5)
    absorbing = glass_of(attenuation_distance=1.0, attenuation_color=(0.5, 0.5, 1.0))
    seen, dimmed = (
        picture(world([outer, inner], [glass, lambert(1, 1, 1)], **SKY), 32, max_depth=32).mean(axis=(0, 1))
        for glass in (glass_of(), absorbing)
    )
    assert seen == pytest.approx([1.0] * 3, abs=0.02)
    assert dimmed[0] < 0.9 * seen[0] and dimmed[2] == pytest.approx(seen[2], abs=0.01)
