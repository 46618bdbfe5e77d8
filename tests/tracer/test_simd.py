"""The vector instructions beside what NumPy makes of the same numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracer.kernels import entry
from tracer.kernels.simd import LANES, absolute, at_most, flat, load, local_array, maximum, minimum, store

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
