"""The sky's density integrates to one, is what is sampled, and is never small where the sky is bright."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.tracer.worlds import constant_sky
from tracer.build import silent
from tracer.kernels import entry
from tracer.kernels.borrow import borrowed
from tracer.kernels.environment import sample_sky, sky_towards
from tracer.kernels.layout import Sky
from tracer.lighting import make_sky
from tracer.scene import Environment

Array = NDArray[np.float64]


@entry
def sample_many(sky: Sky, randoms: Array, out: Array) -> None:
    """out (n, 5): direction, its pdf as sampled, and as looked up."""
    sky = borrowed(sky)
    for i in range(randoms.shape[0]):
        d, _, pdf = sample_sky(sky, randoms[i, 0], randoms[i, 1])
        out[i, 0], out[i, 1], out[i, 2] = d
        out[i, 3], out[i, 4] = pdf, sky_towards(sky, d)[1]


@entry
def look_up_many(sky: Sky, d: Array, out: Array) -> None:
    """out (n, 4): radiance, pdf."""
    sky = borrowed(sky)
    for i in range(d.shape[0]):
        w = (d[i, 0], d[i, 1], d[i, 2])
        (out[i, 0], out[i, 1], out[i, 2]), out[i, 3] = sky_towards(sky, w)


def everywhere(n: int) -> tuple[Array, float]:
    """Middles of n x 2n cells of equal solid angle on the sphere."""
    y, phi = np.meshgrid(
        1 - 2 * (np.arange(n) + 0.5) / n, (np.arange(2 * n) + 0.5) / n * np.pi, indexing="ij"
    )
    r = np.sqrt(1 - y * y)
    return np.stack([r * np.sin(phi), y, -r * np.cos(phi)], axis=-1).reshape(-1, 3), 2 * np.pi / n**2


def sky_of(pixels: Array, **more: float) -> Sky:
    return make_sky(Environment(pixels.astype(np.float32), **more), silent)


def dotted(seed: int, height: int, width: int) -> Array:
    """Dark, with a few very bright texels."""
    random = np.random.default_rng(seed)
    return random.random((height, width, 3)) ** 12 * 1000.0


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 17), st.floats(0.0, 6.0))
def test_the_density_integrates_to_one(seed: int, height: int, width: int, rotation: float) -> None:
    d, solid = everywhere(400)
    out = np.empty((len(d), 4))
    look_up_many(sky_of(dotted(seed, height, width), rotation=rotation), d, out)
    assert out[:, 3].sum() * solid == pytest.approx(1.0, abs=0.03)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 17), st.floats(0.0, 6.0))
def test_samples_carry_their_density(seed: int, height: int, width: int, rotation: float) -> None:
    sky = sky_of(dotted(seed, height, width), rotation=rotation)
    random = np.random.default_rng(seed)
    out = np.empty((2000, 5))
    sample_many(sky, random.random((2000, 2)), out)
    np.testing.assert_allclose((out[:, :3] ** 2).sum(axis=1), 1.0, atol=1e-12)
    assert (out[:, 3] > 0).all()
    # A direction within rounding of a cell's border may be looked up in the next cell.
    assert np.isclose(out[:, 3], out[:, 4], rtol=1e-9).mean() > 0.998


@pytest.mark.parametrize("rotation", [0.0, 2.0])
def test_sampling_estimates_the_integral(rotation: float) -> None:
    """The mean of radiance / pdf is the sky's total; a density too small somewhere would scatter it."""
    sky = sky_of(dotted(4, 8, 16), rotation=rotation)
    d, solid = everywhere(1000)
    exact = np.empty((len(d), 4))
    look_up_many(sky, d, exact)
    total = exact[:, :3].sum(axis=0) * solid
    samples = np.empty((200_000, 5))
    sample_many(sky, np.random.default_rng(1).random((len(samples), 2)), samples)
    out = np.empty((len(samples), 4))
    look_up_many(sky, np.ascontiguousarray(samples[:, :3]), out)
    ratios = out[:, :3] / samples[:, 3:4]
    np.testing.assert_allclose(ratios.mean(axis=0), total, rtol=0.02)
    luminance = ratios @ np.array([0.2126, 0.7152, 0.0722])
    assert luminance.max() < 30 * luminance.mean()


def test_the_convention() -> None:
    """u = atan2(dx, -dz) / 2 pi, v = acos(dy) / pi; row 0 is up, and the middle column looks along +Z."""
    pixels = np.zeros((2, 4, 3))
    pixels[0, :, 0] = 1.0  # up is red
    pixels[:, 1, 1] = 1.0  # u = 3/8: between +X (1/4) and +Z (1/2)
    sky = sky_of(pixels)
    s = np.sqrt(0.5)
    d = np.array([[0, 1, 0], [0, -1, 0], [s, 0, s], [-s, 0, -s]], np.float64)
    out = np.empty((4, 4))
    look_up_many(sky, d, out)
    np.testing.assert_allclose(out[:, 0], [1, 0, 0.5, 0.5], atol=1e-12)
    np.testing.assert_allclose(out[2:, 1], [1, 0], atol=1e-12)
    turned = sky_of(pixels, rotation=np.pi / 2)  # +X turns to -Z, +Z to +X
    look_up_many(turned, np.array([[s, 0, -s]]), out[:1])
    assert out[0, 1] == pytest.approx(1.0)


def test_scale_multiplies_and_black_is_never_sampled() -> None:
    assert sky_of(np.full((1, 1, 3), 2.0), scale=3.0).pixels.tolist() == [[[6.0, 6.0, 6.0]]]
    assert make_sky(constant_sky(0, 0, 0), silent).row_cdf[-1] == 0.0
