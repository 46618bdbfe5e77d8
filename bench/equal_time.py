"""Error at equal time: both sides with their best sampler, given the same CPU time.

relMSE is the mean over pixels and colours of (x - r)^2 / (r^2 + 0.01); the reference r is the mean of a long
picture of each side, made with seeds that are not measured.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bench.mitsuba_peer import MitsubaScene
from bench.ours import render_film
from tracer.build import prepare
from tracer.film import RADIANCE
from tracer.scene import Scene, View

VARIANT, SAMPLER = "llvm_ad_rgb", "multijitter"
EDGE = 128
OUR_SAMPLES = 32
REFERENCE_SAMPLES = 1024
REFERENCE_SEED = 1000
EPSILON = 0.01

Array = TypeVar("Array", bound=NDArray[Any])


def relative_mse(picture: NDArray[np.float64], reference: NDArray[np.float64]) -> float:
    return float(np.mean((picture - reference) ** 2 / (reference**2 + EPSILON)))


def timed(call: Callable[[], Array]) -> tuple[Array, float]:
    """(what call returns, CPU seconds)"""
    began = time.process_time()
    result = call()
    return result, time.process_time() - began


def compare(name: str, scene: Scene, *, depth: int, threads: int, seeds: int, folder: Path) -> str:
    view = View(width=EDGE, height=EDGE, max_depth=depth)
    try:
        peer = MitsubaScene(scene, view, VARIANT, sampler=SAMPLER, folder=folder)
    except ImportError as error:
        return f"{name:22} skipped: {error}"

    def ours(samples: int, seed: int) -> tuple[NDArray[np.float64], float]:
        prepared = prepare(scene, view._replace(seed=seed))  # before the clock runs
        film, cpu = timed(lambda: render_film(prepared, samples, threads))
        return np.asarray(film[..., RADIANCE] / samples), cpu

    def theirs(samples: int, seed: int) -> tuple[NDArray[np.float64], float]:
        picture, cpu = timed(lambda: peer.render(samples, seed))
        return picture.astype(np.float64), cpu

    long = (REFERENCE_SAMPLES, REFERENCE_SEED)
    reference = 0.5 * (ours(*long)[0] + theirs(*long)[0])

    theirs(OUR_SAMPLES, REFERENCE_SEED)  # compiles
    cost = ours(OUR_SAMPLES, REFERENCE_SEED)[1] / theirs(OUR_SAMPLES, REFERENCE_SEED)[1]
    samples = max(1, round(OUR_SAMPLES * cost))
    pairs = [(ours(OUR_SAMPLES, seed), theirs(samples, seed)) for seed in range(seeds)]
    our_error, their_error = (
        statistics.median(relative_mse(pair[side][0], reference) for pair in pairs) for side in (0, 1)
    )
    time_ratio = statistics.median(other[1] / own[1] for own, other in pairs)
    # What is left of the difference in time counts as for independent samples: error goes as 1 / time.
    return (
        f"{name:22} {their_error / our_error * time_ratio:5.2f}   ours {OUR_SAMPLES} spp {our_error:.2e}, "
        f"Mitsuba {samples} spp {their_error:.2e} in {time_ratio:.2f} of our time"
    )
