"""Decoding of textures with more than 8 bits, once, before anything is rendered."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracer.kernels import entry
from tracer.kernels.mathematics import srgb_to_linear


@entry
def decode_srgb(pixels: NDArray[np.float32]) -> None:
    """Makes the colours of pixels (n, 4) linear in place; alpha is linear already."""
    for i in range(pixels.shape[0]):
        for k in range(3):
            pixels[i, k] = srgb_to_linear(float(pixels[i, k]))
