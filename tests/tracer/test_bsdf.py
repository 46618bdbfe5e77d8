"""The glTF BRDF: its formula, and that sample, pdf and evaluate agree with each other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tracer.kernels import bsdf, entry
from tracer.kernels.bsdf import Bsdf

Array = NDArray[np.float64]
Vec3 = tuple[float, float, float]


@entry
def sample_many(b: Bsdf, wo: Vec3, randoms: Array, out: Array) -> None:
    """out (n, 7): wi, value, pdf."""
    for i in range(randoms.shape[0]):
        s = bsdf.sample(b, wo, randoms[i, 0], randoms[i, 1], randoms[i, 2])
        out[i, 0], out[i, 1], out[i, 2] = s.wi
        out[i, 3], out[i, 4], out[i, 5] = s.value
        out[i, 6] = s.pdf


@entry
def evaluate_many(b: Bsdf, wo: Vec3, wi: Array, out: Array) -> None:
    """out (n, 4): value, pdf."""
    for i in range(wi.shape[0]):
        w = (wi[i, 0], wi[i, 1], wi[i, 2])
        value, pdf = bsdf.evaluate(b, wo, w)
        out[i, 0], out[i, 1], out[i, 2] = value
        out[i, 3] = pdf


@entry
def make(  # cos_o as from 45 degrees: only how often which lobe is sampled depends on it
    base: Vec3,
    metallic: float,
    roughness: float,
    f0: float,
    specular: float,
    tint: Vec3,
    transmission: float = 0.0,
    eta: float = 0.0,
    cos_o: float = 0.7071,
) -> Bsdf:
    return bsdf.make_bsdf(base, metallic, roughness, f0, specular, tint, transmission, eta, cos_o)


WHITE = (1.0, 1.0, 1.0)
MATERIALS = {
    "rough plastic": ((0.8, 0.2, 0.1), 0.0, 1.0, 0.04, 1.0, WHITE),
    "plastic": ((0.8, 0.2, 0.1), 0.0, 0.4, 0.04, 1.0, WHITE),
    "half metal": ((0.1, 0.3, 0.8), 0.5, 0.5, 0.04, 1.0, WHITE),
    "metal": ((1.0, 0.77, 0.34), 1.0, 0.6, 0.04, 1.0, WHITE),
    "rough metal": ((0.95, 0.95, 0.95), 1.0, 1.0, 0.04, 1.0, WHITE),
    "lambert": ((0.5, 0.6, 0.7), 0.0, 1.0, 0.04, 0.0, WHITE),
    "tinted": ((0.2, 0.2, 0.2), 0.0, 0.3, 0.1, 0.7, (1.0, 0.3, 0.1)),
    "black": ((0.0, 0.0, 0.0), 0.0, 0.5, 0.04, 1.0, WHITE),
}
ANGLES = [0.0, 0.6, 1.2, 1.5]


def direction(angle: float, turn: float = 0.3) -> Vec3:
    return (math.sin(angle) * math.cos(turn), math.sin(angle) * math.sin(turn), math.cos(angle))


def hemisphere(n: int) -> tuple[Array, float]:
    """Directions at the middles of n x 2n cells of equal solid angle, and that solid angle."""
    z, phi = np.meshgrid((np.arange(n) + 0.5) / n, (np.arange(2 * n) + 0.5) / n * np.pi, indexing="ij")
    r = np.sqrt(1.0 - z * z)
    w = np.stack([r * np.cos(phi), r * np.sin(phi), z], axis=-1).reshape(-1, 3)
    return w, np.pi / (n * n)


def appendix_b(m: tuple[Any, ...], wo: Array, wi: Array) -> Array:
    """The formula of the specification, written down again from its text, without specular colours."""
    base, metallic, roughness, f0, specular, _ = m
    base = np.array(base)
    alpha2 = max(roughness**2, 1e-3) ** 2
    h = wo + wi
    h /= np.linalg.norm(h, axis=1, keepdims=True)
    n_l, n_v, n_h, v_h = wi[:, 2], wo[:, 2], h[:, 2], (wo * h).sum(axis=1)
    d = alpha2 / (np.pi * (n_h**2 * (alpha2 - 1.0) + 1.0) ** 2)
    v = 1.0 / (n_l + np.sqrt(alpha2 + (1.0 - alpha2) * n_l**2))
    v /= n_v + np.sqrt(alpha2 + (1.0 - alpha2) * n_v**2)
    low = (1.0 - metallic) * f0 * specular + metallic * base
    high = (1.0 - metallic) * specular + metallic
    f = low + (high - low) * ((1.0 - v_h) ** 5)[:, None]
    diffuse = (1.0 - metallic) * base / np.pi
    value: Array = (1.0 - f) * diffuse + f * (d * v)[:, None]
    return value


@pytest.mark.parametrize("name", [n for n in MATERIALS if n != "tinted"])
@pytest.mark.parametrize("angle", ANGLES)
def test_it_is_appendix_b(name: str, angle: float) -> None:
    wi, _ = hemisphere(12)
    out = np.empty((len(wi), 4))
    evaluate_many(make(*MATERIALS[name]), direction(angle), wi, out)
    wo = np.tile(direction(angle), (len(wi), 1))
    np.testing.assert_allclose(out[:, :3], appendix_b(MATERIALS[name], wo, wi), rtol=1e-9, atol=1e-12)


def test_a_coloured_layer_takes_its_largest_channel_from_the_base() -> None:
    """KHR_materials_specular: the base is weighted by 1 - max(F), for energy's sake."""
    base, _, roughness, f0, specular, tint = MATERIALS["tinted"]
    wi, wo = np.array([[0.0, 0.0, 1.0]]), (0.0, 0.0, 1.0)
    out = np.empty((1, 4))
    evaluate_many(make(*MATERIALS["tinted"]), wo, wi, out)
    alpha2 = roughness**4
    layer = 1.0 / (np.pi * alpha2) / 4.0
    reflected = np.array(tint) * f0 * specular
    expected = (1.0 - reflected.max()) * np.array(base) / np.pi + reflected * layer
    np.testing.assert_allclose(out[0, :3], expected, rtol=1e-12)


@pytest.mark.parametrize("name", MATERIALS)
@pytest.mark.parametrize("angle", ANGLES)
def test_the_pdf_integrates_to_what_is_sampled(name: str, angle: float) -> None:
    """Over the hemisphere the pdf is the share of samples that are above the surface."""
    b = make(*MATERIALS[name])
    wi, solid = hemisphere(512)
    out = np.empty((len(wi), 4))
    evaluate_many(b, direction(angle), wi, out)
    samples = np.empty((40_000, 7))
    sample_many(b, direction(angle), np.random.default_rng(5).random((len(samples), 3)), samples)
    kept = (samples[:, 6] > 0.0).mean()
    assert out[:, 3].sum() * solid == pytest.approx(kept, abs=0.01)


@pytest.mark.parametrize("name", MATERIALS)
@pytest.mark.parametrize("angle", ANGLES)
def test_samples_are_distributed_as_the_pdf_says(name: str, angle: float) -> None:
    """Chi-squared over 8 x 16 cells of the hemisphere; the pdf is integrated on 32 x 32 points a cell."""
    b, wo, rows, columns, fine, n = make(*MATERIALS[name]), direction(angle), 8, 16, 32, 100_000
    s = np.empty((n, 7))
    sample_many(b, wo, np.random.default_rng(7).random((n, 3)), s)
    wi = s[s[:, 6] > 0.0, :3]
    row = np.minimum((wi[:, 2] * rows).astype(int), rows - 1)
    column = np.minimum(
        (np.arctan2(wi[:, 1], wi[:, 0]) / (2 * np.pi) % 1.0 * columns).astype(int), columns - 1
    )
    counts = np.bincount(row * columns + column, minlength=rows * columns)
    w, solid = hemisphere(rows * fine)  # 2 n columns: rows * fine * 2 = columns * fine
    out = np.empty((len(w), 4))
    evaluate_many(b, wo, w, out)
    cells = out[:, 3].reshape(rows, fine, columns, fine).sum(axis=(1, 3)).ravel() * solid * n
    usable = cells > 20
    error = 0.004 * cells  # of the numerical integral itself
    chi2 = ((counts - cells)[usable] ** 2 / (cells + error**2)[usable]).sum()
    freedom = usable.sum()
    assert chi2 < freedom + 5 * np.sqrt(2 * freedom)


@pytest.mark.parametrize("name", MATERIALS)
def test_a_sample_carries_its_own_value_and_pdf(name: str) -> None:
    b, wo = make(*MATERIALS[name]), direction(0.8)
    s = np.empty((1000, 7))
    sample_many(b, wo, np.random.default_rng(3).random((len(s), 3)), s)
    s = s[s[:, 6] > 0.0]
    out = np.empty((len(s), 4))
    evaluate_many(b, wo, np.ascontiguousarray(s[:, :3]), out)
    np.testing.assert_allclose(s[:, 3:], out, rtol=1e-12)


@pytest.mark.parametrize("name", MATERIALS)
@pytest.mark.parametrize("angle", ANGLES)
def test_no_more_comes_back_than_arrives(name: str, angle: float) -> None:
    wi, solid = hemisphere(512)
    out = np.empty((len(wi), 4))
    evaluate_many(make(*MATERIALS[name]), direction(angle), wi, out)
    albedo = (out[:, :3] * wi[:, 2:]).sum(axis=0) * solid
    assert (albedo <= 1.0 + 1e-3).all()


units = st.floats(0.0, 1.0)


@settings(max_examples=200)
@given(
    st.tuples(units, units, units),
    units,
    units,
    units,
    units,
    st.floats(0.01, 1.55),
    st.floats(0.01, 1.55),
    units,
)
def test_reciprocity_and_no_negative_or_infinite_value(
    base: Vec3, metallic: float, roughness: float, f0: float, specular: float, a: float, b: float, turn: float
) -> None:
    m = make(base, metallic, roughness, f0, specular, (1.0, 0.5, 0.2))
    wo, wi = direction(a), direction(b, turn * 6.0)
    there, _ = bsdf.evaluate(m, wo, wi)
    assert there == pytest.approx(bsdf.evaluate(m, wi, wo)[0], rel=1e-9)
    assert all(0.0 <= x < math.inf for x in there)


@settings(max_examples=200)
@given(units, units, st.floats(0.0, 1.5707), st.tuples(units, units, units))
def test_samples_stay_finite_at_every_edge(
    metallic: float, roughness: float, angle: float, randoms: Vec3
) -> None:
    m = make((0.9, 0.5, 0.1), metallic, roughness, 0.04, 1.0, WHITE)
    choice, u, v = (min(x, 1.0 - 2.0**-32) for x in randoms)
    s = bsdf.sample(m, direction(angle), choice, u, v)
    assert 0.0 <= s.pdf < math.inf
    if s.pdf > 0.0:
        assert np.linalg.norm(s.wi) == pytest.approx(1.0, abs=1e-9)
        assert all(0.0 <= x < math.inf for x in s.value)


def test_nothing_is_reflected_below_the_surface() -> None:
    m = make(*MATERIALS["plastic"])
    up, down = direction(0.5), (0.3, 0.1, -0.9)
    assert bsdf.evaluate(m, up, down) == bsdf.evaluate(m, down, up) == ((0.0, 0.0, 0.0), 0.0)
    assert bsdf.sample(m, down, 0.5, 0.5, 0.5).pdf == 0.0
