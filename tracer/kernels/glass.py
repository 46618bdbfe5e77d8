"""Light through a surface: KHR_materials_transmission, and with KHR_materials_volume the bending glass.

Thin walls (eta 0) let light pass straight on: the reflection lobe, mirrored to the other side. Volumes
refract at microfacets after B. Walter et al., "Microfacet Models for Refraction through Rough Surfaces",
EGSR 2007, eq. 16, 17 and 21, with the separable Smith form of the rest and the exact Fresnel reflectance of
a dielectric, which total reflection needs. Directions are in the shading frame; wo is above, wi below.
"""

from __future__ import annotations

import math

from tracer.kernels import device, inlined
from tracer.kernels.mathematics import Vec3, add, dot, normalize, scale

LEAST_BEND = 1.0 + 1e-4
"""Relative ior of a volume at least: at 1 every microfacet lets light pass straight on, and none is known."""


@inlined
def fresnel_weight(eta: float, cosine: float) -> float:
    """How far F is on its way from F0 to F90: Schlick's (1 - cos)^5 where eta is 0; else so that F is the
    exact reflectance of a dielectric of relative ior eta. 2 for total reflection."""
    if eta == 0.0:
        c = 1.0 - cosine
        c2 = c * c
        return c2 * c2 * c
    g2 = eta * eta - 1.0 + cosine * cosine
    if g2 <= 0.0:
        return 2.0
    # R. Cook, K. Torrance, "A Reflectance Model for Computer Graphics", 1982.
    g = math.sqrt(g2)
    parallel = (g - cosine) / (g + cosine)
    ratio = (cosine * (g + cosine) - 1.0) / (cosine * (g - cosine) + 1.0)
    exact = 0.5 * parallel * parallel * (1.0 + ratio * ratio)
    f0 = (eta - 1.0) / (eta + 1.0)
    f0 *= f0
    return (exact - f0) / (1.0 - f0)


@inlined
def refract(wo: Vec3, h: Vec3, eta: float) -> Vec3:
    """The direction beyond a facet h on wo's side, by Snell's law; (0, 0, 0) where all is reflected."""
    c = dot(wo, h)
    k = 1.0 - (1.0 - c * c) / (eta * eta)
    if k <= 0.0:
        return (0.0, 0.0, 0.0)
    return add(scale(wo, -1.0 / eta), scale(h, c / eta - math.sqrt(k)))


@inlined
def facet_between(wo: Vec3, wi: Vec3, eta: float) -> Vec3:
    """The microfacet normal, above the surface, that leads wo to wi."""
    if eta == 0.0:
        return normalize((wo[0] + wi[0], wo[1] + wi[1], wo[2] - wi[2]))
    h = (wo[0] + eta * wi[0], wo[1] + eta * wi[1], wo[2] + eta * wi[2])
    h = normalize(h)
    return h if h[2] > 0.0 else scale(h, -1.0)


@device
def jacobian(wo: Vec3, wi: Vec3, h: Vec3, eta: float) -> float:
    """|dh / dwi|: from a density of facets to one of directions beyond the surface. 0 where the facet cannot
    be seen from both sides."""
    o = dot(wo, h)
    if eta == 0.0:
        return 0.25 / o if o > 0.0 else 0.0
    i = dot(wi, h)
    if not (o > 0.0 and i < 0.0):
        return 0.0
    root = o + eta * i
    return eta * eta * -i / (root * root)
