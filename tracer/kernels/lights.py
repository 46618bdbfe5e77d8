"""Sampling the lights: emissive triangles by power, punctual lights evenly, the environment by brightness.

`Lights.choice` says how often each of the three kinds is taken; it is part of every pdf here.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracer.kernels import entry, inlined
from tracer.kernels.environment import find_interval, sample_sky, sky_towards
from tracer.kernels.layout import Record, SceneArrays, as_int, shape_of
from tracer.kernels.mathematics import Vec3, cross, dot, length, luminance, scale, sub, vector
from tracer.kernels.surface import Place, emission_at, opacity_at, place_at, spawn, vertex
from tracer.scene import LightKind

SPOT, DIRECTIONAL = int(LightKind.SPOT), int(LightKind.DIRECTIONAL)
EMITTERS, PUNCTUAL, SKY = range(3)
NEARLY_ALL = 1.0 - 1e-9
"""A shadow ray ends just before the light, which would otherwise shadow itself."""


class LightSample(NamedTuple):
    """Light that may arrive along wi (unit), from `target` or, at_infinity, from everywhere along wi.

    pdf: by solid angle; for a punctual light (is_delta) the probability of having taken it. radiance over
    pdf estimates what arrives; for a delta light it is radiance times the delta's solid angle. pdf 0: none.
    """

    wi: Vec3
    target: Vec3
    at_infinity: bool
    radiance: Vec3
    pdf: float
    is_delta: bool


@inlined
def sample_light(scene: SceneArrays, point: Vec3, choice: float, u: float, v: float) -> LightSample:
    p = scene.lights.choice
    if choice < p[EMITTERS]:
        return _sample_emitter(scene, point, choice / p[EMITTERS], u, v)
    choice -= p[EMITTERS]
    if choice < p[PUNCTUAL]:
        lights = scene.lights.punctual
        index = min(int(choice / p[PUNCTUAL] * len(lights)), len(lights) - 1)
        return _sample_punctual(lights[index], point, p[PUNCTUAL] / len(lights))
    if p[SKY] > 0.0:
        wi, radiance, pdf = sample_sky(scene.sky, u, v)
        return LightSample(wi, wi, True, radiance, pdf * p[SKY], False)
    return LightSample(point, point, True, (0.0, 0.0, 0.0), 0.0, False)


@inlined
def _sample_emitter(scene: SceneArrays, point: Vec3, choice: float, u: float, v: float) -> LightSample:
    lights = scene.lights
    triangle = as_int(lights.emitters[find_interval(lights.emitter_cdf, choice)])
    root = math.sqrt(u)
    b1, b2 = root * (1.0 - v), root * v
    place = place_at(scene.geometry, triangle, b1, b2)
    to_light = sub(place.point, point)
    squared = dot(to_light, to_light)
    nothing = LightSample(point, point, False, (0.0, 0.0, 0.0), 0.0, False)
    if not squared > 0.0:
        return nothing
    wi = scale(to_light, 1.0 / math.sqrt(squared))
    cosine = -dot(wi, place.n)
    if not emits_towards(scene, triangle, cosine):
        return nothing
    # The density by area, seen from the point.
    pdf = lights.choice[EMITTERS] * lights.emitter_pdf[triangle] * squared / abs(cosine)
    radiance = scale(emission_at(scene, triangle, b1, b2), opacity_at(scene, triangle, b1, b2))
    return LightSample(wi, spawn(place, scale(wi, -1.0)), False, radiance, pdf, False)


@inlined
def emits_towards(scene: SceneArrays, triangle: int, cosine: float) -> bool:
    """Whether an emissive triangle shines to where its normal makes an angle of this cosine."""
    surfaces = scene.surfaces
    material = surfaces.materials[surfaces.shapes[shape_of(surfaces, triangle)].material]
    return cosine > 0.0 or (material.double_sided != 0 and cosine < 0.0)


@inlined
def _sample_punctual(light: Record, point: Vec3, probability: float) -> LightSample:
    """KHR_lights_punctual: candela over squared distance, the spot's falloff, lux for directional."""
    intensity, direction = vector(light.intensity), vector(light.direction)
    if light.kind == DIRECTIONAL:
        wi = scale(direction, -1.0)
        return LightSample(wi, wi, True, intensity, probability, True)
    position = vector(light.position)
    to_light = sub(position, point)
    squared = dot(to_light, to_light)
    if not squared > 0.0:
        return LightSample(point, point, False, (0.0, 0.0, 0.0), 0.0, True)
    wi = scale(to_light, 1.0 / math.sqrt(squared))
    falloff = 1.0
    if light.kind == SPOT:
        span = max(0.001, light.cos_inner - light.cos_outer)
        falloff = min(max((-dot(wi, direction) - light.cos_outer) / span, 0.0), 1.0)
        falloff *= falloff
    return LightSample(wi, position, False, scale(intensity, falloff / squared), probability, True)


@inlined
def emitter_pdf(scene: SceneArrays, triangle: int, place: Place, wi: Vec3, distance: float) -> float:
    """The density with which `sample_light` gives the direction wi to this point of an emissive triangle."""
    lights = scene.lights
    if lights.choice[EMITTERS] == 0.0:
        return 0.0
    cosine = abs(dot(wi, place.n))
    pdf: float = lights.choice[EMITTERS] * lights.emitter_pdf[triangle] * distance * distance / cosine
    return pdf


@inlined
def environment_towards(scene: SceneArrays, d: Vec3) -> tuple[Vec3, float]:
    """What the environment sends from direction d, and the density with which `sample_light` gives d."""
    radiance, pdf = sky_towards(scene.sky, d)
    return radiance, scene.lights.choice[SKY] * pdf


@entry
def emitter_powers(
    scene: SceneArrays, begin: int, end: int, areas: NDArray[np.float64], powers: NDArray[np.float64]
) -> None:
    """Area, and area times mean luminance, of the triangles lights.emitters[begin:end]."""
    surfaces, steps = scene.surfaces, 4
    for i in range(begin, end):
        triangle = as_int(scene.lights.emitters[i])
        p0 = vertex(scene.geometry, triangle, 0)
        e1, e2 = sub(vertex(scene.geometry, triangle, 1), p0), sub(vertex(scene.geometry, triangle, 2), p0)
        areas[i] = 0.5 * length(cross(e1, e2))
        total = 0.0
        for row in range(steps):
            for column in range(steps):
                # Evenly over the triangle: the half of the square beyond the diagonal is folded back.
                b1, b2 = (row + 0.5) / steps, (column + 0.25) / steps
                if b1 + b2 > 1.0:
                    b1, b2 = 1.0 - b1, 1.0 - b2
                total += luminance(emission_at(scene, triangle, b1, b2)) / (steps * steps)
        material = surfaces.materials[surfaces.shapes[shape_of(surfaces, triangle)].material]
        powers[i] = areas[i] * total * (2.0 if material.double_sided else 1.0)
