"""Random numbers: Owen-scrambled Sobol points, a pure function of (seed, frame, pixel, sample, dimension).

Padded pairs: each pair of dimensions is the two-dimensional Sobol sequence in a shuffled order of its own,
with a scrambling of its own, so that any 2^k samples of a pixel cover each pair in strata while pairs stay
independent of each other. B. Burley, "Practical Hash-based Owen Scrambling", JCGT 10(1), 2020. The
scrambling hash is N. Vegdahl's ("Building a Better LK Hash", 2021).
"""

from __future__ import annotations

import numpy as np

from tracer.kernels import device, inlined
from tracer.kernels.words import Eight, Word8, alternating, lane_numbers, reversed_bits, units, words

# Which pair serves what. Pairs 0 and 1: the point of the pixel, the point of the lens. A bounce has three
# pairs of its own: (which light, which lobe), the light's point, the lobe's direction.
FIRST_PAIR = 0
FIRST_BOUNCE = 2
PAIRS_PER_BOUNCE = 3

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
def scramble_reversed(x: Word8, seed: Word8) -> Word8:
    """Nested uniform (Owen) scrambling of a number whose bits are reversed: the last digit comes first."""
    x = x ^ (x * words(LK1))
    x = x + seed
    x = x * ((seed >> words(U16)) | words(U1))
    x = x ^ (x * words(LK2))
    return x ^ (x * words(LK3))


@inlined
def sobol_second_reversed(index: Word8) -> Word8:
    """The bits of dimension 1 of the Sobol sequence, reversed: the Pascal matrix modulo 2 times index."""
    x = index ^ (index >> words(U16))
    x = x ^ ((x >> words(U8)) & words(M8))
    x = x ^ ((x >> words(U4)) & words(M4))
    x = x ^ ((x >> words(U2)) & words(M2))
    return x ^ ((x >> words(U1)) & words(M1))


@inlined
def _mix(x: Word8) -> Word8:
    """`mix` in each lane."""
    x = (x ^ (x >> words(U16))) * words(MIX1)
    x = (x ^ (x >> words(MIX_SHIFT))) * words(MIX2)
    return x ^ (x >> words(U16))


@inlined
def sample_pairs(key: np.uint32, index: np.uint32, pair: int) -> Eight:
    """The pairs of numbers in [0, 1) from number `pair` on, four of them, of sample `index` of the pixel with
    this key. One lane for each number: all eight cost less than two would alone."""
    lane = lane_numbers()
    own_pair = (lane >> words(U1)) + words(np.uint32(pair))
    # `combine` of the pixel's key with each pair's number.
    keys = _mix(_mix(own_pair + words(COMBINE)) ^ words(np.uint32(key * MIX2 + COMBINE)))
    # Shuffled: Owen scrambling of the index itself permutes it within every aligned power of two.
    order = reversed_bits(scramble_reversed(reversed_bits(words(index)), keys))
    # Dimension 0 is the index with its bits reversed, which is how scramble_reversed wants it.
    points = alternating(order, sobol_second_reversed(order))
    seeds = _mix(keys + words(U1) + (lane & words(U1)))
    return units(reversed_bits(scramble_reversed(points, seeds)))
