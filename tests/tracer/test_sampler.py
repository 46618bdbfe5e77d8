"""The sampler is a function of its inputs alone, and its points are stratified, uniform and unrelated."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tracer.kernels import entry
from tracer.kernels import sampler as s

Points = NDArray[np.float64]


@entry
def fill(seed: int, frame: int, x: int, y: int, first: int, pair: int, out: Points) -> None:
    key = s.pixel_key(seed, frame, x, y)
    for i in range(out.shape[0]):
        out[i, 0], out[i, 1], _, _, _, _, _, _ = s.sample_pairs(key, np.uint32(first + i), pair)


def points(
    count: int, *, seed: int = 0, frame: int = 1, x: int = 0, y: int = 0, first: int = 0, pair: int = 0
) -> Points:
    out = np.empty((count, 2))
    fill(seed, frame, x, y, first, pair, out)
    return out


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(0, 50), st.integers(0, 9), st.integers(0, 40))
def test_every_power_of_two_is_stratified_in_every_shape_of_cell(
    seed: int, x: int, pair: int, block: int
) -> None:
    """Owen scrambling keeps the (0, 2)-sequence: one point in each elementary interval."""
    for bits in (1, 4, 8):
        count = 1 << bits
        p = points(count, seed=seed, x=x, pair=pair, first=block * count)
        for k in range(bits + 1):
            cells = np.floor(p[:, 0] * 2**k) * 2 ** (bits - k) + np.floor(p[:, 1] * 2 ** (bits - k))
            assert len(np.unique(cells)) == count


@settings(max_examples=20)
@given(st.integers(0, 1000), st.integers(1, 100))
def test_a_sample_does_not_depend_on_how_many_there_are(first: int, count: int) -> None:
    everything = points(first + count, seed=3, pair=2)
    assert points(count, seed=3, pair=2, first=first).tobytes() == everything[first:].tobytes()


@pytest.mark.parametrize(
    "change", [{"seed": 1}, {"frame": 2}, {"x": 1}, {"y": 1}, {"pair": 1}, {"seed": 1 << 40}, {"frame": -1}]
)
def test_every_input_gives_an_unrelated_sequence(change: dict[str, int]) -> None:
    a, b = points(4096), points(4096, **change)
    assert (a != b).any(axis=1).mean() > 0.99
    for i in range(2):
        for j in range(2):
            # Both are evenly spread, so that the correlation of unrelated ones is about 1 / sqrt(4096).
            assert abs(np.corrcoef(a[:, i], b[:, j])[0, 1]) < 0.08


def test_one_sample_of_many_pixels_is_uniform() -> None:
    """Neighbouring pixels, same sample: chi-squared over 16 x 16 cells."""
    p = np.concatenate([points(1, x=x, y=y) for x in range(128) for y in range(64)])
    counts, _, _ = np.histogram2d(p[:, 0], p[:, 1], bins=16, range=[[0, 1], [0, 1]])
    expected = len(p) / 256
    chi2 = ((counts - expected) ** 2 / expected).sum()
    assert 255 - 5 * np.sqrt(510) < chi2 < 255 + 5 * np.sqrt(510)


def test_pairs_together_are_uniform() -> None:
    """Two pairs of the same samples fill their four dimensions: chi-squared over 4^4 cells."""
    a, b = points(8192, pair=2), points(8192, pair=4)
    counts, _ = np.histogramdd(np.hstack([a, b]), bins=4, range=[(0, 1)] * 4)
    chi2 = ((counts - 32.0) ** 2 / 32.0).sum()
    assert chi2 < 255 + 5 * np.sqrt(510)


def test_numbers_lie_in_the_half_open_interval() -> None:
    p = np.concatenate([points(4096, pair=k) for k in range(8)])
    assert p.min() >= 0.0
    assert p.max() < 1.0


def test_the_error_falls_faster_than_at_random() -> None:
    """A smooth integrand: 256 points at random have an error of about 0.02, these below a tenth of it."""
    errors = []
    for seed in range(20):
        p = points(256, seed=seed)
        errors.append((np.sin(np.pi * p[:, 0]) * p[:, 1]).mean() - 1.0 / np.pi)
    assert np.sqrt(np.mean(np.square(errors))) < 0.002
