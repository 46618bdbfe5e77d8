"""What a ray finds where it hits: the place, its normals and its material."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracer.kernels import inlined
from tracer.kernels.bsdf import Bsdf, lambertian, make_bsdf
from tracer.kernels.layout import Geometry, Record, SceneArrays, Surfaces, Textures, shape_of
from tracer.kernels.mathematics import Vec3, add, cross, dot, normalize, scale, sub, vector
from tracer.kernels.textures import TexCoords, look_up, textured
from tracer.scene import AlphaMode

OPAQUE, MASK = int(AlphaMode.OPAQUE), int(AlphaMode.MASK)
OFFSET = 1e-10
"""How far new rays start from a surface, relative to the triangle's coordinates: many thousand times the
error of a float64 intersection, and far below what float32 vertices can tell apart."""


class Place(NamedTuple):
    """A point of a triangle. n: unit, the front side's. offset: how far rays must start from it."""

    point: Vec3
    n: Vec3
    offset: float


class Surface(NamedTuple):
    """shading_n is unit and on the viewer's side; front: seen from the front side."""

    place: Place
    shading_n: Vec3
    front: bool
    material: int
    base_color: Vec3
    bsdf: Bsdf


@inlined
def vertex(geometry: Geometry, triangle: int, corner: int) -> Vec3:
    p = geometry.positions[geometry.triangles[triangle, corner]]
    return (float(p[0]), float(p[1]), float(p[2]))


@inlined
def largest(v: Vec3) -> float:
    return max(abs(v[0]), abs(v[1]), abs(v[2]))


@inlined
def place_at(geometry: Geometry, triangle: int, b1: float, b2: float) -> Place:
    p0, p1, p2 = vertex(geometry, triangle, 0), vertex(geometry, triangle, 1), vertex(geometry, triangle, 2)
    point = add(scale(p0, 1.0 - b1 - b2), add(scale(p1, b1), scale(p2, b2)))
    n = normalize(cross(sub(p1, p0), sub(p2, p0)))
    return Place(point, n, OFFSET * max(largest(p0), largest(p1), largest(p2)))


@inlined
def spawn(place: Place, d: Vec3) -> Vec3:
    """Where a ray in direction d leaves the surface, clear of it."""
    side = place.offset if dot(d, place.n) > 0.0 else -place.offset
    return add(place.point, scale(place.n, side))


@inlined
def uv_at(
    surfaces: Surfaces, first: int, i0: int, i1: int, i2: int, b1: float, b2: float
) -> tuple[float, float]:
    if first < 0:
        return 0.0, 0.0
    uvs, b0 = surfaces.uvs, 1.0 - b1 - b2
    u = b0 * uvs[first + i0, 0] + b1 * uvs[first + i1, 0] + b2 * uvs[first + i2, 0]
    v = b0 * uvs[first + i0, 1] + b1 * uvs[first + i1, 1] + b2 * uvs[first + i2, 1]
    return u, v


@inlined
def local_corners(geometry: Geometry, shape: Record, triangle: int) -> tuple[int, int, int]:
    """The triangle's corners, counted within its shape's vertices."""
    t = geometry.triangles[triangle]
    return t[0] - shape.first_vertex, t[1] - shape.first_vertex, t[2] - shape.first_vertex


@inlined
def texture_coordinates(
    geometry: Geometry, surfaces: Surfaces, shape: Record, triangle: int, b1: float, b2: float
) -> TexCoords:
    i0, i1, i2 = local_corners(geometry, shape, triangle)
    u0, v0 = uv_at(surfaces, shape.uv0, i0, i1, i2, b1, b2)
    u1, v1 = uv_at(surfaces, shape.uv1, i0, i1, i2, b1, b2)
    return (u0, v0, u1, v1)


@inlined
def base_color_at(
    geometry: Geometry,
    surfaces: Surfaces,
    textures: Textures,
    shape: Record,
    triangle: int,
    b1: float,
    b2: float,
    at: TexCoords,
) -> tuple[Vec3, float]:
    """(colour, alpha): factor x texture x COLOR_0. Colours are at most 1, so that nothing reflects more."""
    factor = surfaces.materials[shape.material].base_color
    r, g, b, a = factor[0], factor[1], factor[2], factor[3]
    use = surfaces.materials[shape.material].base_color_texture
    if use >= 0:
        texel = look_up(textures, use, at)
        r, g, b, a = r * texel[0], g * texel[1], b * texel[2], a * texel[3]
    if shape.colors >= 0:
        i0, i1, i2 = local_corners(geometry, shape, triangle)
        colors, b0 = surfaces.colors, 1.0 - b1 - b2
        c0, c1, c2 = colors[shape.colors + i0], colors[shape.colors + i1], colors[shape.colors + i2]
        r *= b0 * c0[0] + b1 * c1[0] + b2 * c2[0]
        g *= b0 * c0[1] + b1 * c1[1] + b2 * c2[1]
        b *= b0 * c0[2] + b1 * c1[2] + b2 * c2[2]
        a *= b0 * c0[3] + b1 * c1[3] + b2 * c2[3]
    return (min(max(r, 0.0), 1.0), min(max(g, 0.0), 1.0), min(max(b, 0.0), 1.0)), min(max(a, 0.0), 1.0)


@inlined
def opacity_at(scene: SceneArrays, triangle: int, b1: float, b2: float) -> float:
    """The share of light that the surface stops: glTF's alphaMode."""
    surfaces = scene.surfaces
    shape = surfaces.shapes[shape_of(surfaces, triangle)]
    material = surfaces.materials[shape.material]
    if material.alpha_mode == OPAQUE:
        return 1.0
    at = texture_coordinates(scene.geometry, surfaces, shape, triangle, b1, b2)
    _, alpha = base_color_at(scene.geometry, surfaces, scene.textures, shape, triangle, b1, b2, at)
    if material.alpha_mode == MASK:
        return 1.0 if alpha >= material.alpha_cutoff else 0.0
    return alpha


@inlined
def emission_at(scene: SceneArrays, triangle: int, b1: float, b2: float) -> Vec3:
    """Radiance that leaves a point of an emissive triangle, whatever the side."""
    surfaces = scene.surfaces
    shape = surfaces.shapes[shape_of(surfaces, triangle)]
    material = surfaces.materials[shape.material]
    factor = vector(material.emissive)
    if material.emissive_texture < 0:
        return factor
    at = texture_coordinates(scene.geometry, surfaces, shape, triangle, b1, b2)
    return textured(scene.textures, material.emissive_texture, at, factor)


@inlined
def surface_at(scene: SceneArrays, triangle: int, b1: float, b2: float, wo: Vec3) -> Surface:
    """The surface as seen from direction wo."""
    geometry, surfaces, textures = scene.geometry, scene.surfaces, scene.textures
    shape = surfaces.shapes[shape_of(surfaces, triangle)]
    m = surfaces.materials[shape.material]
    place = place_at(geometry, triangle, b1, b2)
    at = texture_coordinates(geometry, surfaces, shape, triangle, b1, b2)
    base, _ = base_color_at(geometry, surfaces, textures, shape, triangle, b1, b2, at)
    n = shading_normal(scene, shape, triangle, b1, b2, place.n, at, wo)
    front = dot(place.n, wo) > 0.0
    if m.lambertian:
        return Surface(place, n, front, shape.material, base, lambertian(base))
    metallic, roughness = m.metallic, m.roughness
    if m.metallic_roughness_texture >= 0:
        texel = look_up(textures, m.metallic_roughness_texture, at)
        roughness, metallic = roughness * texel[1], metallic * texel[2]
    specular = m.specular
    if m.specular_texture >= 0:
        specular *= look_up(textures, m.specular_texture, at)[3]
    tint = textured(textures, m.specular_color_texture, at, vector(m.specular_color))
    transmission, eta = m.transmission, 0.0
    if m.transmission_texture >= 0:
        transmission *= look_up(textures, m.transmission_texture, at)[0]
    if m.bends:
        eta = m.ior if front else 1.0 / m.ior
    return Surface(
        place=place,
        shading_n=n,
        front=front,
        material=shape.material,
        base_color=base,
        bsdf=make_bsdf(
            base, metallic, roughness, m.dielectric_f0, specular, tint, transmission, eta, dot(n, wo)
        ),
    )


@inlined
def shading_normal(
    scene: SceneArrays,
    shape: Record,
    triangle: int,
    b1: float,
    b2: float,
    n: Vec3,
    at: TexCoords,
    wo: Vec3,
) -> Vec3:
    """The interpolated normal, bent by the normal texture, on wo's side. n: the triangle's own."""
    surfaces = scene.surfaces
    i0, i1, i2 = local_corners(scene.geometry, shape, triangle)
    smooth = n
    if shape.normals >= 0:
        smooth = _interpolated(surfaces.normals, shape.normals, i0, i1, i2, b1, b2)
        squared = dot(smooth, smooth)
        # Normals that cancel each other say nothing.
        smooth = normalize(smooth) if squared > 1e-12 else n
    material = surfaces.materials[shape.material]
    bent = smooth
    if material.normal_texture >= 0:
        bent = _bent(scene, shape, triangle, b1, b2, smooth, at)
    if dot(smooth, wo) < 0.0:
        smooth, bent = scale(smooth, -1.0), scale(bent, -1.0)
    return bent if dot(bent, wo) > 0.0 else smooth


@inlined
def _interpolated(
    values: NDArray[np.float32], first: int, i0: int, i1: int, i2: int, b1: float, b2: float
) -> Vec3:
    a, b, c, b0 = values[first + i0], values[first + i1], values[first + i2], 1.0 - b1 - b2
    return (
        b0 * a[0] + b1 * b[0] + b2 * c[0],
        b0 * a[1] + b1 * b[1] + b2 * c[1],
        b0 * a[2] + b1 * b[2] + b2 * c[2],
    )


@inlined
def _bent(
    scene: SceneArrays, shape: Record, triangle: int, b1: float, b2: float, n: Vec3, at: TexCoords
) -> Vec3:
    """n as the normal texture wants it; n itself where there is no usable tangent."""
    geometry, surfaces = scene.geometry, scene.surfaces
    material = surfaces.materials[shape.material]
    i0, i1, i2 = local_corners(geometry, shape, triangle)
    sign = 1.0
    if shape.tangents >= 0:
        t = _interpolated(surfaces.tangents, shape.tangents, i0, i1, i2, b1, b2)
        sign = float(surfaces.tangents[shape.tangents + i0, 3])
    else:
        first = shape.uv0 if scene.textures.uses[material.normal_texture].texcoord == 0 else shape.uv1
        if first < 0:
            return n
        p0, uvs = vertex(geometry, triangle, 0), surfaces.uvs
        e1, e2 = sub(vertex(geometry, triangle, 1), p0), sub(vertex(geometry, triangle, 2), p0)
        du1, dv1 = uvs[first + i1, 0] - uvs[first + i0, 0], uvs[first + i1, 1] - uvs[first + i0, 1]
        du2, dv2 = uvs[first + i2, 0] - uvs[first + i0, 0], uvs[first + i2, 1] - uvs[first + i0, 1]
        # The tangent runs along u. Green means up in the picture, where glTF's v runs down.
        t, sign = sub(scale(e1, float(dv2)), scale(e2, float(dv1))), -1.0
        if du1 * dv2 - du2 * dv1 < 0.0:
            t, sign = scale(t, -1.0), 1.0
    t = sub(t, scale(n, dot(n, t)))
    squared = dot(t, t)
    if not squared > 0.0:
        return n
    t = normalize(t)
    texel = look_up(scene.textures, material.normal_texture, at)
    x, y = (2.0 * texel[0] - 1.0) * material.normal_scale, (2.0 * texel[1] - 1.0) * material.normal_scale
    bent = add(scale(n, 2.0 * texel[2] - 1.0), add(scale(t, x), scale(cross(n, t), sign * y)))
    squared = dot(bent, bent)
    return normalize(bent) if squared > 1e-12 else n
