"""The glTF 2.0 metallic-roughness BRDF, Appendix B, with KHR_materials_ior and KHR_materials_specular.

    f = (1 - F') c_diff / pi + F D V,   F = F0 + (F90 - F0) (1 - |V.H|)^5,   alpha = roughness^2

D is GGX and V = G / (4 |N.L| |N.V|) with G the separable Smith form. F' is F, but for a coloured dielectric
its largest channel, as KHR_materials_specular wants. Directions are in the shading frame, n = (0, 0, 1).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from tracer.kernels import device, inlined
from tracer.kernels.mathematics import INV_PI, PI, Vec3, add, cos_sin_turns, dot, luminance, normalize, scale

MIN_ALPHA = 1e-3
BLACK = (0.0, 0.0, 0.0)


class Bsdf(NamedTuple):
    """The material at one point. covers: F0 of F', what the layer keeps from the diffuse base."""

    diffuse: Vec3
    f0: Vec3
    covers: Vec3
    f90: float
    alpha: float


class BsdfSample(NamedTuple):
    """wi, f(wo, wi), and the pdf of wi by solid angle; pdf 0 where there is no sample."""

    wi: Vec3
    value: Vec3
    pdf: float


@inlined
def make_bsdf(
    base: Vec3, metallic: float, roughness: float, dielectric_f0: float, specular: float, specular_color: Vec3
) -> Bsdf:
    """From glTF's parameters. dielectric_f0: ((ior - 1) / (ior + 1))^2."""
    d = (
        min(dielectric_f0 * specular_color[0], 1.0) * specular,
        min(dielectric_f0 * specular_color[1], 1.0) * specular,
        min(dielectric_f0 * specular_color[2], 1.0) * specular,
    )
    plain = 1.0 - metallic
    metal = scale(base, metallic)
    most = plain * max(d[0], d[1], d[2])
    return Bsdf(
        diffuse=scale(base, plain),
        f0=add(scale(d, plain), metal),
        covers=(most + metal[0], most + metal[1], most + metal[2]),
        f90=plain * specular + metallic,
        alpha=max(roughness * roughness, MIN_ALPHA),
    )


@inlined
def schlick(f0: Vec3, f90: float, cosine: float) -> Vec3:
    c = 1.0 - cosine
    c2 = c * c
    c5 = c2 * c2 * c
    return (f0[0] + (f90 - f0[0]) * c5, f0[1] + (f90 - f0[1]) * c5, f0[2] + (f90 - f0[2]) * c5)


@inlined
def ggx(alpha: float, h: Vec3) -> float:
    """D(h). Written with sin^2 + alpha^2 cos^2, which keeps its digits where alpha is small."""
    a2 = alpha * alpha
    c2 = h[2] * h[2]
    k = h[0] * h[0] + h[1] * h[1] + a2 * c2
    return a2 / (PI * k * k)


@inlined
def smith(alpha: float, cosine: float) -> float:
    """G1 / (2 cosine)."""
    a2 = alpha * alpha
    return 1.0 / (cosine + math.sqrt(a2 + (1.0 - a2) * cosine * cosine))


@inlined
def specular_share(b: Bsdf, wo: Vec3) -> float:
    """Probability of sampling the microfacets: their part of what roughly comes back."""
    f = schlick(b.f0, b.f90, wo[2])
    kept = schlick(b.covers, b.f90, wo[2])
    specular = luminance(f)
    diffuse = luminance(
        ((1.0 - kept[0]) * b.diffuse[0], (1.0 - kept[1]) * b.diffuse[1], (1.0 - kept[2]) * b.diffuse[2])
    )
    if not specular + diffuse > 0.0:
        return 0.0
    return specular / (specular + diffuse)


@device
def evaluate(b: Bsdf, wo: Vec3, wi: Vec3) -> Vec3:
    """f(wo, wi), without the cosine; black where either is not above the surface."""
    if wo[2] <= 0.0 or wi[2] <= 0.0:
        return BLACK
    h = normalize(add(wo, wi))
    cosine = min(dot(wo, h), 1.0)
    f = schlick(b.f0, b.f90, cosine)
    kept = schlick(b.covers, b.f90, cosine)
    dv = ggx(b.alpha, h) * smith(b.alpha, wo[2]) * smith(b.alpha, wi[2])
    return (
        (1.0 - kept[0]) * b.diffuse[0] * INV_PI + f[0] * dv,
        (1.0 - kept[1]) * b.diffuse[1] * INV_PI + f[1] * dv,
        (1.0 - kept[2]) * b.diffuse[2] * INV_PI + f[2] * dv,
    )


@device
def pdf(b: Bsdf, wo: Vec3, wi: Vec3) -> float:
    """The solid angle density with which `sample` gives wi."""
    if wo[2] <= 0.0 or wi[2] <= 0.0:
        return 0.0
    share = specular_share(b, wo)
    h = normalize(add(wo, wi))
    # Visible normals: G1(wo) (wo.h) D(h) / cos_o, and 1 / (4 wo.h) from h to wi.
    visible = 0.5 * smith(b.alpha, wo[2]) * ggx(b.alpha, h)
    return share * visible + (1.0 - share) * wi[2] * INV_PI


@device
def sample(b: Bsdf, wo: Vec3, choice: float, u: float, v: float) -> BsdfSample:
    """A direction from the cosine lobe or from the visible normals, with the pdf of both together."""
    nothing = BsdfSample(BLACK, BLACK, 0.0)
    if wo[2] <= 0.0:
        return nothing
    if choice < specular_share(b, wo):
        h = sample_visible_normal(b.alpha, wo, u, v)
        k = 2.0 * dot(wo, h)
        wi = (k * h[0] - wo[0], k * h[1] - wo[1], k * h[2] - wo[2])
    else:
        wi = sample_cosine(u, v)
    density = pdf(b, wo, wi)
    if not density > 0.0:
        return nothing
    return BsdfSample(wi, evaluate(b, wo, wi), density)


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
