"""The glTF 2.0 metallic-roughness BRDF, Appendix B, with KHR_materials_ior and KHR_materials_specular; and
what KHR_materials_transmission lets through (tracer.kernels.glass).

    f = (1 - F') c_diff / pi + F D V,   F = F0 + (F90 - F0) (1 - |V.H|)^5,   alpha = roughness^2

D is GGX and V = G / (4 |N.L| |N.V|) with G the separable Smith form. F' is F, but for a coloured dielectric
its largest channel, as KHR_materials_specular wants. Directions are in the shading frame, n = (0, 0, 1).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from tracer.kernels import device, inlined
from tracer.kernels.glass import facet_between, fresnel_weight, jacobian, refract
from tracer.kernels.mathematics import (
    INV_PI,
    PI,
    Vec3,
    add,
    cos_sin_turns,
    dot,
    luminance,
    mul,
    normalize,
    scale,
    sub,
)

MIN_ALPHA = 1e-3
BLACK, WHITE = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)


class Bsdf(NamedTuple):
    """The material at one point, as seen from one direction wo.

    covers: F0 of F', what the layer keeps from the base below. specular_share: the probability of sampling
    the microfacets from wo. through: what passes below the layer; eta: the other side's ior over this one's
    where it bends, 0 for thin walls.
    """

    diffuse: Vec3
    f0: Vec3
    covers: Vec3
    f90: float
    alpha: float
    specular_share: float
    through: Vec3
    eta: float


class BsdfSample(NamedTuple):
    """wi, f(wo, wi), and the pdf of wi by solid angle; pdf 0 where there is no sample."""

    wi: Vec3
    value: Vec3
    pdf: float


@inlined
def make_bsdf(
    base: Vec3,
    metallic: float,
    roughness: float,
    dielectric_f0: float,
    specular: float,
    specular_color: Vec3,
    transmission: float,
    eta: float,
    cos_o: float,
) -> Bsdf:
    """From glTF's parameters. dielectric_f0: ((ior - 1) / (ior + 1))^2; cos_o: of wo and the normal."""
    d = (
        min(dielectric_f0 * specular_color[0], 1.0) * specular,
        min(dielectric_f0 * specular_color[1], 1.0) * specular,
        min(dielectric_f0 * specular_color[2], 1.0) * specular,
    )
    plain = 1.0 - metallic
    metal = scale(base, metallic)
    most = plain * max(d[0], d[1], d[2])
    diffuse = scale(base, plain * (1.0 - transmission))
    through = scale(base, plain * transmission)
    f0 = add(scale(d, plain), metal)
    covers = (most + metal[0], most + metal[1], most + metal[2])
    f90 = plain * specular + metallic
    # Each lobe's part of what roughly comes back.
    weight = fresnel_weight(eta, cos_o)
    mirrored = luminance(fresnel(f0, f90, weight))
    uncovered = _uncovered(fresnel(covers, f90, weight))
    scattered = luminance(mul(uncovered, diffuse))
    passed = luminance(mul(uncovered, through))
    facets = mirrored + passed
    share = facets / (facets + scattered) if facets > 0.0 else 0.0
    return Bsdf(diffuse, f0, covers, f90, max(roughness * roughness, MIN_ALPHA), share, through, eta)


@inlined
def lambertian(base: Vec3) -> Bsdf:
    """What make_bsdf gives where nothing is metal, mirrors or passes."""
    return Bsdf(base, BLACK, BLACK, 0.0, 1.0, 0.0, BLACK, 0.0)


@inlined
def fresnel(f0: Vec3, f90: float, weight: float) -> Vec3:
    """weight: see glass.fresnel_weight."""
    if weight > 1.0:
        return WHITE
    return (f0[0] + (f90 - f0[0]) * weight, f0[1] + (f90 - f0[1]) * weight, f0[2] + (f90 - f0[2]) * weight)


@inlined
def _uncovered(kept: Vec3) -> Vec3:
    return (1.0 - kept[0], 1.0 - kept[1], 1.0 - kept[2])


@inlined
def _reflected_share(b: Bsdf, mirrored: Vec3, covered: Vec3) -> float:
    """The probability that a facet with these reflectances is sampled as a mirror, not as a window."""
    if b.through == BLACK:
        return 1.0
    r, t = luminance(mirrored), luminance(mul(_uncovered(covered), b.through))
    return r / (r + t) if r + t > 0.0 else 1.0


@inlined
def ggx(alpha: float, h: Vec3) -> float:
    """D(h). Written with sin^2 + alpha^2 cos^2, which keeps its digits where alpha is small."""
    a2 = alpha * alpha
    k = h[0] * h[0] + h[1] * h[1] + a2 * h[2] * h[2]
    return a2 / (PI * k * k)


@inlined
def smith(alpha: float, cosine: float) -> float:
    """G1 / (2 cosine)."""
    a2 = alpha * alpha
    return 1.0 / (cosine + math.sqrt(a2 + (1.0 - a2) * cosine * cosine))


@device
def evaluate(b: Bsdf, wo: Vec3, wi: Vec3) -> tuple[Vec3, float]:
    """(f(wo, wi), the density with which `sample` gives wi); zeros where wo is not above the surface, and
    where wi is not but nothing passes. f is of radiance: light is denser by eta^2 on the denser side."""
    if wo[2] <= 0.0:
        return BLACK, 0.0
    if wi[2] <= 0.0:
        if b.through == BLACK or wi[2] == 0.0:
            return BLACK, 0.0
        return _evaluate_through(b, wo, wi)
    if b.specular_share == 0.0:
        return scale(b.diffuse, INV_PI), wi[2] * INV_PI
    h = normalize(add(wo, wi))
    weight = fresnel_weight(b.eta, min(dot(wo, h), 1.0))
    distribution, seen = ggx(b.alpha, h), smith(b.alpha, wo[2])
    covered, mirrored = fresnel(b.covers, b.f90, weight), fresnel(b.f0, b.f90, weight)
    base = scale(mul(_uncovered(covered), b.diffuse), INV_PI)
    layer = scale(mirrored, distribution * seen * smith(b.alpha, wi[2]))
    # Visible normals have the density G1(wo) (wo.h) D(h) / cos_o; 1 / (4 wo.h) leads from h to wi.
    facet = b.specular_share * _reflected_share(b, mirrored, covered)
    pdf = facet * 0.5 * seen * distribution + (1.0 - b.specular_share) * wi[2] * INV_PI
    return add(base, layer), pdf


@device
def _evaluate_through(b: Bsdf, wo: Vec3, wi: Vec3) -> tuple[Vec3, float]:
    """The same for wi on the other side."""
    h = facet_between(wo, wi, b.eta)
    leads = jacobian(wo, wi, h, b.eta)
    if leads == 0.0:
        return BLACK, 0.0
    cosine = min(dot(wo, h), 1.0)
    weight = fresnel_weight(b.eta, cosine)
    covered, mirrored = fresnel(b.covers, b.f90, weight), fresnel(b.f0, b.f90, weight)
    # G1(wo) / (2 cos_o) and G1(wi) / (2 cos_i): f = T G D |wo.h| |dh/dwi| / (cos_o cos_i), over eta^2.
    seen, lit, distribution = smith(b.alpha, wo[2]), smith(b.alpha, -wi[2]), ggx(b.alpha, h)
    facet = 4.0 * seen * lit * distribution * cosine * leads
    if b.eta != 0.0:
        facet /= b.eta * b.eta
    window = b.specular_share * (1.0 - _reflected_share(b, mirrored, covered))
    pdf = window * 2.0 * seen * distribution * cosine * leads
    return scale(mul(_uncovered(covered), b.through), facet), pdf


@device
def sample(b: Bsdf, wo: Vec3, choice: float, u: float, v: float) -> BsdfSample:
    """A direction from the cosine lobe or by way of a visible normal, with the pdf of all ways together."""
    if wo[2] <= 0.0:
        return BsdfSample(BLACK, BLACK, 0.0)
    if choice < b.specular_share:
        h = sample_visible_normal(b.alpha, wo, u, v)
        wi = sub(scale(h, 2.0 * dot(wo, h)), wo)
        if b.through != BLACK:
            weight = fresnel_weight(b.eta, min(dot(wo, h), 1.0))
            covered, mirrored = fresnel(b.covers, b.f90, weight), fresnel(b.f0, b.f90, weight)
            if choice >= b.specular_share * _reflected_share(b, mirrored, covered):
                wi = (wi[0], wi[1], -wi[2]) if b.eta == 0.0 else refract(wo, h, b.eta)
                if wi[2] >= 0.0:  # out through the wrong side: such light is lost between the facets
                    return BsdfSample(BLACK, BLACK, 0.0)
            elif wi[2] <= 0.0:
                return BsdfSample(BLACK, BLACK, 0.0)
    else:
        wi = sample_cosine(u, v)
    value, pdf = evaluate(b, wo, wi)
    return BsdfSample(wi, value, pdf)


@inlined
def sample_cosine(u: float, v: float) -> Vec3:
    c, s = cos_sin_turns(v)
    r = math.sqrt(u)
    return (r * c, r * s, math.sqrt(1.0 - u))


@device
def sample_visible_normal(alpha: float, wo: Vec3, u: float, v: float) -> Vec3:
    """A GGX normal seen from wo. J. Dupuy, A. Benyoub, "Sampling Visible GGX Normals with Spherical Caps",
    2023: in the stretched space mirror directions fill a cap of the sphere evenly."""
    stretched = normalize((alpha * wo[0], alpha * wo[1], wo[2]))
    c, s = cos_sin_turns(v)
    z = (1.0 - u) * (1.0 + stretched[2]) - stretched[2]
    r = math.sqrt(min(max(1.0 - z * z, 0.0), 1.0))
    h = (r * c + stretched[0], r * s + stretched[1], z + stretched[2])
    return normalize((alpha * h[0], alpha * h[1], max(h[2], 1e-12)))
