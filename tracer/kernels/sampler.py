"""Random numbers: Owen-scrambled Sobol points, a pure function of (seed, frame, pixel, sample, dimension).

Padded pairs: each pair of dimensions is the two-dimensional Sobol sequence in a shuffled order of its own,
with a scrambling of its own, so that any 2^k samples of a pixel cover each pair in strata while pairs stay
independent of each other. B. Burley, "Practical Hash-based Owen Scrambling", JCGT 10(1), 2020. The
scrambling hash is N. Vegdahl's ("Building a Better LK Hash", 2021).
"""

from __future__ import annotations

import numpy as np

from tracer.kernels import device, inlined

# Which pair serves what. A bounce has PAIRS_PER_BOUNCE of its own.
PIXEL = 0
LENS = 1
FIRST_BOUNCE = 2
PAIRS_PER_BOUNCE = 3
CHOICES = 0  # (which light, which lobe)
LIGHT = 1
BSDF = 2

U16, U8, U4, U2, U1 = np.uint32(16), np.uint32(8), np.uint32(4), np.uint32(2), np.uint32(1)
M8, M4 = np.uint32(0x00FF00FF), np.uint32(0x0F0F0F0F)
M2, M1 = np.uint32(0x33333333), np.uint32(0x55555555)
MIX1, MIX2 = np.uint32(0x7FEB352D), np.uint32(0x846CA68B)
MIX_SHIFT = np.uint32(15)
COMBINE = np.uint32(0x9E3779B9)
LK1, LK2, LK3 = np.uint32(0x3D20ADEA), np.uint32(0x05526C56), np.uint32(0x53A22864)
LOW = np.uint64(0xFFFFFFFF)
HIGH_SHIFT = np.uint64(32)
TO_UNIT = 1.0 / 4294967296.0


@inlined
def mix(x: np.uint32) -> np.uint32:
    """A bijective hash of 32 bits (C. Wellons' lowbias32)."""
    x = np.uint32(x ^ (x >> U16))
    x = np.uint32(x * MIX1)
    x = np.uint32(x ^ (x >> MIX_SHIFT))
    x = np.uint32(x * MIX2)
    return np.uint32(x ^ (x >> U16))


@inlined
def combine(key: np.uint32, value: np.uint32) -> np.uint32:
    """A new key from a key and a value; different in either gives an unrelated result."""
    return mix(np.uint32(mix(np.uint32(value + COMBINE)) ^ np.uint32(key * MIX2 + COMBINE)))


@device
def pixel_key(seed: int, frame: int, x: int, y: int) -> np.uint32:
    """The key of one pixel's sample sequence. seed and frame count with all their 64 bits."""
    key = np.uint32(0)
    for word in (np.uint64(seed), np.uint64(frame)):
        key = combine(key, np.uint32(word & LOW))
        key = combine(key, np.uint32(word >> HIGH_SHIFT))
    return combine(combine(key, np.uint32(x)), np.uint32(y))


@inlined
def reverse_bits(x: np.uint32) -> np.uint32:
    x = np.uint32((x << U16) | (x >> U16))
    x = np.uint32(((x & M8) << U8) | ((x >> U8) & M8))
    x = np.uint32(((x & M4) << U4) | ((x >> U4) & M4))
    x = np.uint32(((x & M2) << U2) | ((x >> U2) & M2))
    return np.uint32(((x & M1) << U1) | ((x >> U1) & M1))


@inlined
def scramble_reversed(x: np.uint32, seed: np.uint32) -> np.uint32:
    """Nested uniform (Owen) scrambling of a number whose bits are reversed: the last digit comes first."""
    x = np.uint32(x ^ np.uint32(x * LK1))
    x = np.uint32(x + seed)
    x = np.uint32(x * np.uint32((seed >> U16) | U1))
    x = np.uint32(x ^ np.uint32(x * LK2))
    return np.uint32(x ^ np.uint32(x * LK3))


@inlined
def sobol_second_reversed(index: np.uint32) -> np.uint32:
    """The bits of dimension 1 of the Sobol sequence, reversed: the Pascal matrix modulo 2 times index."""
    x = np.uint32(index ^ (index >> U16))
    x = np.uint32(x ^ ((x >> U8) & M8))
    x = np.uint32(x ^ ((x >> U4) & M4))
    x = np.uint32(x ^ ((x >> U2) & M2))
    return np.uint32(x ^ ((x >> U1) & M1))


@inlined
def sample_pair(key: np.uint32, index: np.uint32, pair: int) -> tuple[float, float]:
    """Two numbers in [0, 1) for sample `index` of the pixel with this key."""
    key = combine(key, np.uint32(pair))
    # Shuffled: Owen scrambling of the index itself permutes it within every aligned power of two.
    index = reverse_bits(scramble_reversed(reverse_bits(index), key))
    # Dimension 0 is the index with its bits reversed, which is how scramble_reversed wants it.
    first = reverse_bits(scramble_reversed(index, mix(np.uint32(key + U1))))
    second = reverse_bits(scramble_reversed(sobol_second_reversed(index), mix(np.uint32(key + U2))))
    return np.float64(first) * TO_UNIT, np.float64(second) * TO_UNIT
