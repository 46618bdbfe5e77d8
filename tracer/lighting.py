"""The lights of a scene as tables to sample from. Every table is summed in one fixed order."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tracer.kernels import in_python
from tracer.kernels.environment import fill_cell_rows
from tracer.kernels.layout import PUNCTUAL, Lights, Records, SceneArrays, Sky, Surfaces, records
from tracer.kernels.lights import emitter_powers
from tracer.kernels.mathematics import cos_sin_turns
from tracer.scene import Environment, Light, Progress, Scene
from tracer.viewpoint import Sphere

CHUNK = 100_000
"""Emissive triangles, or pixels of the environment, handled between two calls of progress."""

WHITE = Environment(np.ones((1, 1, 3), np.float32))
DARK = Environment(np.zeros((1, 1, 3), np.float32))

cos_sin = in_python(cos_sin_turns)


def choose_environment(scene: Scene, emits: bool) -> tuple[Environment, tuple[str, ...]]:
    """The scene's environment; a plain white one where there would be no light that is meant to light it.

    A model that came without lights and without a camera is a model, not a lit scene, even if a lamp on it
    glows: its emitters alone would leave it black.
    """
    if scene.environment is not None:
        return scene.environment, ()
    if scene.lights or (emits and scene.cameras):
        return DARK, ()
    why = "glows but has no lights and no camera" if emits else "has no light"
    return WHITE, (f"the scene {why}: it is lit by a plain white environment (--environment 0,0,0 for none)",)


def emissive_triangles(surfaces: Surfaces, progress: Progress) -> NDArray[np.int32]:
    """Numbers of the triangles whose material emits, in rising order."""
    emits: NDArray[np.bool_] = surfaces.materials["emits"][surfaces.shapes["material"]] != 0
    if not emits.any():
        return np.zeros(0, np.int32)
    progress("collecting emitters")
    ends = surfaces.shapes["end_triangle"]
    begins = np.concatenate([[0], ends[:-1]])
    found = [np.arange(begins[i], ends[i], dtype=np.int32) for i in np.flatnonzero(emits)]
    return np.concatenate(found)


def unsampled(emitters: NDArray[np.int32], lights: tuple[Light, ...], bounds: Sphere) -> Lights:
    """The lights before `fill_lights` has measured them."""
    return Lights(
        np.zeros(3), emitters, np.zeros(len(emitters) + 1), np.zeros(1, np.float32), _punctual(lights, bounds)
    )


def fill_lights(scene: SceneArrays, punctual: int, progress: Progress) -> Lights:
    """scene.lights with its probabilities: emitters by power, and an even choice between the kinds."""
    lights, total = scene.lights, len(scene.lights.emitters)
    areas, powers = np.zeros(total), np.zeros(total)
    for begin in range(0, total, CHUNK):
        progress(f"measuring emitters, {begin} of {total}")
        emitter_powers(scene, begin, min(begin + CHUNK, total), areas, powers)
    cdf = np.concatenate([[0.0], np.cumsum(powers)])  # cumsum adds one after the other
    pdf = np.zeros(1, np.float32)
    if cdf[-1] > 0.0 and math.isfinite(cdf[-1]):
        cdf /= cdf[-1]
        # From the table's own differences: exactly what sampling it does.
        pdf = np.zeros(len(scene.geometry.triangles), np.float32)
        pdf[lights.emitters] = (cdf[1:] - cdf[:-1]) / areas
    kinds = np.array([pdf.any(), punctual > 0, scene.sky.row_cdf[-1] > 0.0], np.float64)
    choice = kinds / max(1.0, float(kinds[0] + kinds[1] + kinds[2]))
    return lights._replace(choice=choice, emitter_cdf=cdf, emitter_pdf=pdf)


def _punctual(lights: tuple[Light, ...], bounds: Sphere) -> Records:
    rows = []
    for light in lights:
        x, y, z = light.position
        cx, cy, cz = bounds.center
        rows.append(
            {
                "kind": int(light.kind),
                "intensity": light.intensity,
                "position": (x - cx, y - cy, z - cz),
                "direction": light.direction,
                "cos_inner": cos_sin(light.inner_angle / math.tau)[0],
                "cos_outer": cos_sin(light.outer_angle / math.tau)[0],
            }
        )
    return records(PUNCTUAL, rows)


def make_sky(environment: Environment, progress: Progress) -> Sky:
    """The environment and its sampling tables; row_cdf is all zero where it is black."""
    pixels = np.ascontiguousarray(environment.pixels * np.float32(environment.scale), np.float32)
    height, width = pixels.shape[:2]
    cos_edges = np.array([cos_sin(row / (2.0 * height))[0] for row in range(height + 1)])
    weights = np.zeros(height)
    column_cdf = np.zeros((height, width + 1), np.float32)
    step = max(1, CHUNK // width)
    for begin in range(0, height, step):
        progress(f"environment, row {begin} of {height}")
        fill_cell_rows(pixels, cos_edges, begin, min(begin + step, height), weights, column_cdf)
    row_cdf = np.concatenate([[0.0], np.cumsum(weights)])
    # A picture with an infinite texel cannot be sampled by brightness; its samples will be counted.
    if math.isfinite(row_cdf[-1]):
        row_cdf /= row_cdf[-1] or 1.0
    else:
        row_cdf[:] = 0.0
    return Sky(pixels, row_cdf, column_cdf, cos_edges, np.array(cos_sin(environment.rotation / math.tau)))
