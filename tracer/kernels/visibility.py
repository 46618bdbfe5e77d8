"""Rays through surfaces that may be partly transparent (alphaMode MASK and BLEND).

Whether a surface stops a ray is a hash of the sample, the segment and the triangle. It is the same for
every ray of a segment, whichever strategy sent it, and the mean over samples is the opacity.
"""

from __future__ import annotations

import numpy as np

from tracer.kernels import inlined
from tracer.kernels.intersection import ANY_ID, MISS, Hit, closest_hit, occluded
from tracer.kernels.layout import SceneArrays
from tracer.kernels.mathematics import Vec3
from tracer.kernels.sampler import TO_UNIT, combine
from tracer.kernels.surface import opacity_at

MOST_PASSES = 64
"""Surfaces that one segment may pass through; the next one stops it."""


@inlined
def passes(scene: SceneArrays, hit: Hit, segment_key: np.uint32) -> bool:
    opacity = opacity_at(scene, hit.triangle, hit.b1, hit.b2)
    return float(combine(segment_key, np.uint32(hit.triangle))) * TO_UNIT >= opacity


@inlined
def first_hit(scene: SceneArrays, o: Vec3, d: Vec3, t_max: float, segment_key: np.uint32) -> Hit:
    """The nearest hit with a surface that stops the ray; MISS where there is none before t_max."""
    hit = closest_hit(scene.bvh, o, d, 0.0, ANY_ID, t_max)
    if scene.frame[0].has_alpha:
        passed = 0
        while hit.triangle != MISS and passed < MOST_PASSES and passes(scene, hit, segment_key):
            hit = closest_hit(scene.bvh, o, d, hit.t, hit.triangle, t_max)
            passed += 1
    return hit


@inlined
def unoccluded(scene: SceneArrays, o: Vec3, d: Vec3, t_max: float, segment_key: np.uint32) -> bool:
    """Whether nothing stops the ray before t_max."""
    if scene.frame[0].has_alpha:
        return first_hit(scene, o, d, t_max, segment_key).triangle == MISS
    return not occluded(scene.bvh, o, d, t_max)
