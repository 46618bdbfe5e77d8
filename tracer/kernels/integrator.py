"""The path tracer: next-event estimation and multiple importance sampling with the power heuristic.

E. Veach, "Robust Monte Carlo Methods for Light Transport Simulation", 1997. Paths are cut after max_depth
segments and nowhere else: there is no Russian roulette.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracer import film as f
from tracer.kernels import bsdf, entry, inlined
from tracer.kernels import sampler as s
from tracer.kernels.borrow import borrowed
from tracer.kernels.camera import camera_ray
from tracer.kernels.intersection import MISS
from tracer.kernels.layout import SceneArrays
from tracer.kernels.lights import (
    NEARLY_ALL,
    emits_towards,
    emitter_pdf,
    environment_towards,
    sample_light,
)
from tracer.kernels.mathematics import (
    Frame,
    Vec3,
    add,
    dot,
    exponential,
    frame_of,
    length,
    mul,
    scale,
    sub,
    to_local,
    to_world,
    vector,
)
from tracer.kernels.surface import Surface, emission_at, spawn, surface_at
from tracer.kernels.visibility import first_hit, unoccluded

BLACK = (0.0, 0.0, 0.0)
NOTHING = -1
"""The medium outside of everything."""


class Sample(NamedTuple):
    """What one camera ray brings. The rest describes what it met first; coverage 0: nothing."""

    radiance: Vec3
    coverage: float
    albedo: Vec3
    normal: Vec3
    depth: float


@inlined
def power_heuristic(pdf: float, other: float) -> float:
    """The weight of a sample with this pdf that the other strategy could have made as well."""
    if not other > 0.0:
        return 1.0
    ratio = other / pdf
    return 1.0 / (1.0 + ratio * ratio)


@inlined
def trace_path(scene: SceneArrays, o: Vec3, d: Vec3, key: np.uint32, index: np.uint32) -> Sample:
    """The radiance that arrives at o from d (unit), one estimate."""
    view = scene.frame[0]
    has_lights = scene.lights.choice[0] + scene.lights.choice[1] + scene.lights.choice[2] > 0.0
    radiance, beta = BLACK, (1.0, 1.0, 1.0)
    coverage, albedo, normal, depth = 0.0, BLACK, BLACK, 0.0
    pdf = math.inf  # of d; a camera ray could have been made in no other way
    medium = NOTHING
    sample_key = s.combine(key, index)
    for segment in range(1, view.max_depth + 1):
        hit = first_hit(scene, o, d, math.inf, s.combine(sample_key, np.uint32(segment)))

        # The ray leaves the scene.
        if hit.triangle == MISS:
            if segment > 1 or not view.hide_environment:
                arriving, other_pdf = environment_towards(scene, d)
                radiance = add(radiance, scale(mul(beta, arriving), power_heuristic(pdf, other_pdf)))
            break

        wo = scale(d, -1.0)
        surface = surface_at(scene, hit.triangle, hit.b1, hit.b2, wo)
        material = scene.surfaces.materials[surface.material]
        one_sided = not material.double_sided and not material.transmits
        absorbs = view.backfaces_black and not surface.front and one_sided
        if material.bends and not surface.front:
            medium = surface.material  # also where the camera is in it
        if medium != NOTHING:
            beta = mul(beta, transmittance(scene, medium, hit.t))
        if segment == 1:
            coverage, albedo, normal = 1.0, surface.base_color, surface.shading_n
            depth = hit.t * dot(d, vector(view.forward))
        if absorbs:
            break
        if material.unlit:
            radiance = add(radiance, mul(beta, surface.base_color))
            break

        # What the surface emits.
        if material.emits and emits_towards(scene, hit.triangle, dot(surface.place.n, wo)):
            weight = power_heuristic(pdf, emitter_pdf(scene, hit.triangle, surface.place, d, hit.t))
            emitted = emission_at(scene, hit.triangle, hit.b1, hit.b2)
            radiance = add(radiance, scale(mul(beta, emitted), weight))
        if segment == view.max_depth:
            break

        # Light that arrives directly.
        pair = s.FIRST_BOUNCE + (segment - 1) * s.PAIRS_PER_BOUNCE
        which_light, which_lobe, light_u, light_v, u, v, _, _ = s.sample_pairs(key, index, pair)
        frame = frame_of(surface.shading_n)
        local_wo = to_local(frame, wo)
        if has_lights:
            next_key = s.combine(sample_key, np.uint32(segment + 1))
            direct = direct_light(
                scene, surface, medium, frame, local_wo, next_key, which_light, light_u, light_v
            )
            radiance = add(radiance, mul(beta, direct))

        # On to the next surface.
        bounce = bsdf.sample(surface.bsdf, local_wo, which_lobe, u, v)
        if not bounce.pdf > 0.0:
            break
        beta = scale(mul(beta, bounce.value), abs(bounce.wi[2]) / bounce.pdf)
        if beta == BLACK:
            break
        pdf = bounce.pdf
        d = to_world(frame, bounce.wi)
        o = spawn(surface.place, d)
        medium = medium_along(scene, surface, medium, d)
    return Sample(radiance, coverage, albedo, normal, depth)


@inlined
def medium_along(scene: SceneArrays, surface: Surface, medium: int, d: Vec3) -> int:
    """The material whose inside a ray runs through that leaves the surface along d; NOTHING outside of all.

    There is no stack of them: what is left leads into the open, also out of glass within glass."""
    if not scene.surfaces.materials[surface.material].bends:
        return medium
    return surface.material if dot(d, surface.place.n) < 0.0 else NOTHING


@inlined
def transmittance(scene: SceneArrays, medium: int, distance: float) -> Vec3:
    """Beer-Lambert."""
    a = scene.surfaces.materials[medium].absorption
    if a[0] + a[1] + a[2] == 0.0:
        return (1.0, 1.0, 1.0)
    return (exponential(-a[0] * distance), exponential(-a[1] * distance), exponential(-a[2] * distance))


@inlined
def direct_light(
    scene: SceneArrays,
    surface: Surface,
    medium: int,
    frame: Frame,
    local_wo: Vec3,
    segment_key: np.uint32,
    which: float,
    u: float,
    v: float,
) -> Vec3:
    """One light's contribution to what leaves the surface along wo, weighted against BSDF sampling."""
    light = sample_light(scene, surface.place.point, which, u, v)
    if not light.pdf > 0.0:
        return BLACK
    wi = to_local(frame, light.wi)
    reflected, pdf = bsdf.evaluate(surface.bsdf, local_wo, wi)
    value = mul(reflected, light.radiance)
    if value == BLACK:
        return BLACK
    origin = spawn(surface.place, light.wi)
    d, t_max = light.wi, math.inf
    if not light.at_infinity:
        d, t_max = sub(light.target, origin), NEARLY_ALL
    if not unoccluded(scene, origin, d, t_max, segment_key):
        return BLACK
    weight = 1.0
    if not light.is_delta:
        weight = power_heuristic(light.pdf, pdf)
    medium = medium_along(scene, surface, medium, light.wi)
    if medium != NOTHING and not light.at_infinity:
        value = mul(value, transmittance(scene, medium, length(d)))
    return scale(value, weight * abs(wi[2]) / light.pdf)


@inlined
def _is_finite(c: Vec3) -> bool:
    squares = c[0] * c[0] + c[1] * c[1] + c[2] * c[2]
    return squares - squares == 0.0


@inlined
def _add_sample(pixel: NDArray[np.float64], sample: Sample) -> None:
    """Adds one sample to a pixel's sums, in the order in which every film adds them."""
    if not _is_finite(sample.radiance):
        pixel[f.NONFINITE] += 1.0
        return
    for k in range(3):
        pixel[f.RADIANCE.start + k] += sample.radiance[k]
        pixel[f.SQUARES.start + k] += sample.radiance[k] * sample.radiance[k]
        pixel[f.ALBEDO.start + k] += sample.albedo[k]
        pixel[f.NORMAL.start + k] += sample.normal[k]
    pixel[f.COVERAGE] += sample.coverage
    pixel[f.DEPTH] += sample.depth


@entry
def render(scene: SceneArrays, film: NDArray[np.float64], x: int, y: int, first: int, count: int) -> None:
    """Adds samples first .. first + count to the film of the tile whose top left pixel is (x, y)."""
    scene = borrowed(scene)
    view = scene.frame[0]
    for row in range(film.shape[0]):
        for column in range(film.shape[1]):
            key = s.pixel_key(view.seed, view.frame, x + column, y + row)
            for sample in range(first, first + count):
                index = np.uint32(sample)
                dx, dy, u, v, _, _, _, _ = s.sample_pairs(key, index, s.FIRST_PAIR)
                o, d = camera_ray(view, x + column + dx, y + row + dy, u, v)
                _add_sample(film[row, column], trace_path(scene, o, d, key, index))
