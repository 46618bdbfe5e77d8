"""render_samples: the one way from a prepared scene to a film."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from tracer import warmup
from tracer.build import PreparedScene
from tracer.film import CHANNELS
from tracer.kernels.integrator import render
from tracer.scene import PixelRect

MAX_SAMPLES = 1 << 32
"""Sample numbers have 32 bits."""


def render_samples(
    scene: PreparedScene, film: NDArray[np.float64], tile: PixelRect, first_sample: int, count: int
) -> None:
    """Adds samples first_sample .. first_sample + count of each pixel of the tile to film.

    film (tile.height, tile.width, CHANNELS) is added to one sample at a time, in sample order: what it holds
    depends on the samples alone, not on how they were cut into calls and tiles. Releases the GIL; threads
    may render one scene at the same time into films of their own.
    """
    # The kernel trusts its arguments: a wrong one would write over other memory.
    assert film.shape == (tile.height, tile.width, CHANNELS), (film.shape, tile)
    assert film.dtype == np.float64 and film.flags.c_contiguous and film.flags.writeable
    assert tile.x >= 0 and tile.x + tile.width <= scene.width, tile
    assert tile.y >= 0 and tile.y + tile.height <= scene.height, tile
    assert first_sample >= 0 and count >= 0 and first_sample + count <= MAX_SAMPLES
    render(scene.arrays, film, tile.x, tile.y, first_sample, count)


def warm() -> float:
    """Compiles the kernels, or loads them from the cache, by using each once; the seconds it took.

    Called before a worker asks for work: the first compilation takes longer than a heartbeat may.
    """
    began = time.perf_counter()
    scene = warmup.scene()
    film = np.zeros((scene.height, scene.width, CHANNELS))
    render_samples(scene, film, PixelRect(0, 0, scene.width, scene.height), 0, 1)
    return time.perf_counter() - began
