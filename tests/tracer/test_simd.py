"""The vector instructions beside what NumPy makes of the same numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracer.kernels import entry
from tracer.kernels.simd import (
    LANES,
    absolute,
    at_most,
    first_three,
    flat,
    least,
    load,
    local_array,
    maximum,
    minimum,
    put,
    store,
    swapped_halves,
)
from tracer.kernels.words import alternating, lane_numbers, reversed_bits, units, words

Float32 = NDArray[np.float32]


@entry
def compute(a: Float32, b: Float32, out: Float32) -> int:
    """Rows of out: |a|, a + b, a - b, a * b, the lesser, the greater; back comes the mask of a <= b."""
    x, y = load(a, 0), load(b, 0)
    lanes = local_array(np.float32, LANES)
    results = (absolute(x), x + y, x - y, x * y, minimum(x, y), maximum(x, y))
    for row in range(len(results)):
        store(lanes, results[row])
        for i in range(LANES):
            out[row, i] = lanes[i]
    return at_most(x, y)


@entry
def flattened(values: NDArray[np.int32], out: NDArray[np.int32]) -> None:
    for i in range(len(out)):
        out[i] = flat(values, i)


def test_lanes_compute_what_numbers_alone_do() -> None:
    random = np.random.default_rng(5)
    a, b = (random.normal(size=(2, LANES)) * 1e3).astype(np.float32)
    a[0], b[0], a[1] = -0.0, 0.0, np.inf
    out = np.empty((6, LANES), np.float32)
    mask = compute(a, b, out)
    wanted = np.stack([abs(a), a + b, a - b, a * b, np.where(a < b, a, b), np.where(a > b, a, b)])
    np.testing.assert_array_equal(out, wanted)
    np.testing.assert_array_equal(np.signbit(out[0]), False)
    assert mask == sum(1 << i for i in range(LANES) if a[i] <= b[i])


def test_no_lane_with_a_nan_compares() -> None:
    a, b = np.zeros((2, LANES), np.float32)
    a[3], b[5] = np.nan, np.nan
    assert compute(a, b, np.empty((6, LANES), np.float32)) == 0xFF & ~(1 << 3) & ~(1 << 5)


def test_flat_reads_rows_one_after_the_other() -> None:
    values = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    out = np.empty(24, np.int32)
    flattened(values, out)
    np.testing.assert_array_equal(out, np.arange(24))


@entry
def rearranged(a: Float32, b: Float32, out: Float32) -> tuple[np.float32, np.float32, np.float32]:
    """Rows of out: the lesser, and a with its halves swapped; back come the first three lanes of a."""
    x, y = load(a, 0), load(b, 0)
    put(out, 0, least(x, y))
    put(out, LANES, swapped_halves(x))
    return first_three(x)


def test_lanes_are_put_where_they_are_wanted() -> None:
    a, b = np.random.default_rng(6).normal(size=(2, LANES)).astype(np.float32)
    out = np.empty((2, LANES), np.float32)
    assert rearranged(a, b, out) == tuple(a[:3])
    np.testing.assert_array_equal(out, [np.minimum(a, b), np.roll(a, LANES // 2)])


@entry
def whole_numbers(x: np.uint32, y: np.uint32, out: NDArray[np.float64]) -> None:
    """Rows of out: what the sampler makes of words, as numbers in [0, 1)."""
    a, b = words(x), words(y) + lane_numbers()
    results = (a + b, a * b, a ^ b, a & b, a | b, a >> (b & words(np.uint32(7))), reversed_bits(b))
    for row in range(len(results)):
        out[row] = units(results[row])
    out[7] = units(alternating(a, b))


def test_words_compute_modulo_two_to_the_32() -> None:
    x, y = np.uint32(0xDEADBEEF), np.uint32(0xFFFFFFFC)
    out = np.empty((8, LANES))
    whole_numbers(x, y, out)
    a = np.full(LANES, x)
    b = y + np.arange(LANES, dtype=np.uint32)
    reverse = [int(f"{int(n):032b}"[::-1], 2) for n in b]
    odd = np.where(np.arange(LANES) % 2, b, a)
    wanted = [a + b, a * b, a ^ b, a & b, a | b, a >> (b & np.uint32(7)), reverse, odd]
    np.testing.assert_array_equal(out * 2.0**32, np.array(wanted, np.float64))
