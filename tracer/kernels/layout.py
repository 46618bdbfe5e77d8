"""What kernels read: the arrays of a prepared scene, in groups that are passed together.

All arrays are C-contiguous and writable (Numba compiles another variant for any other kind). Positions are
float32 relative to the scene's centre; whatever is computed from them is float64.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracer.kernels import inlined

Records = NDArray[np.void]
Record = Any
"""One row of them: its fields are attributes."""

NODE = np.dtype([("lo", "<f4", 3), ("hi", "<f4", 3), ("first", "<i4"), ("count", "<i4")])
"""A node of two children, while the BVH is built. A leaf has order[first : first + count]; else the children
are first and first + 1."""

SHAPE = np.dtype(
    [
        ("material", "<i8"),
        ("first_vertex", "<i8"),
        ("end_triangle", "<i8"),
        ("normals", "<i8"),
        ("tangents", "<i8"),
        ("uv0", "<i8"),
        ("uv1", "<i8"),
        ("colors", "<i8"),
    ]
)
"""One mesh in one place. Its triangles are those from the end of the shape before to its own end_triangle.
normals ... colors: where its first vertex's values are; -1 where it has none."""

MATERIAL = np.dtype(
    [
        ("base_color", "<f8", 4),
        ("emissive", "<f8", 3),
        ("specular_color", "<f8", 3),
        ("metallic", "<f8"),
        ("roughness", "<f8"),
        ("dielectric_f0", "<f8"),
        ("specular", "<f8"),
        ("transmission", "<f8"),
        ("ior", "<f8"),
        ("absorption", "<f8", 3),
        ("normal_scale", "<f8"),
        ("alpha_cutoff", "<f8"),
        ("alpha_mode", "<i8"),
        ("double_sided", "<i8"),
        ("unlit", "<i8"),
        ("emits", "<i8"),
        ("transmits", "<i8"),
        ("bends", "<i8"),
        ("lambertian", "<i8"),
        ("base_color_texture", "<i8"),
        ("metallic_roughness_texture", "<i8"),
        ("emissive_texture", "<i8"),
        ("normal_texture", "<i8"),
        ("specular_texture", "<i8"),
        ("specular_color_texture", "<i8"),
        ("transmission_texture", "<i8"),
    ]
)
"""Textures are indices into Textures.uses; -1 for none. ior and absorption (per unit of length): of what
fills a closed surface that bends light. lambertian: nothing mirrors and nothing passes."""

TEXTURE_USE = np.dtype([("image", "<i8"), ("texcoord", "<i8"), ("srgb", "<i8"), ("transform", "<f8", 6)])

IMAGE = np.dtype(
    [
        ("first", "<i8"),
        ("width", "<i8"),
        ("height", "<i8"),
        ("wrap_u", "<i8"),
        ("wrap_v", "<i8"),
        ("linear_filter", "<i8"),
        ("is_float", "<i8"),
    ]
)

PUNCTUAL = np.dtype(
    [
        ("kind", "<i8"),
        ("intensity", "<f8", 3),
        ("position", "<f8", 3),
        ("direction", "<f8", 3),
        ("cos_inner", "<f8"),
        ("cos_outer", "<f8"),
    ]
)

FRAME = np.dtype(
    [
        ("origin", "<f8", 3),
        ("forward", "<f8", 3),
        ("right", "<f8", 3),
        ("up", "<f8", 3),
        ("tan_x", "<f8"),
        ("tan_y", "<f8"),
        ("aperture_radius", "<f8"),
        ("focus_distance", "<f8"),
        ("width", "<i8"),
        ("height", "<i8"),
        ("seed", "<i8"),
        ("frame", "<i8"),
        ("max_depth", "<i8"),
        ("hide_environment", "<i8"),
        ("backfaces_black", "<i8"),
        ("has_alpha", "<i8"),
    ]
)
"""The camera in the rebased world (right, up, forward are unit) and what one frame asks for."""


@inlined
def as_int(value: np.integer[Any]) -> int:
    """A number from an array as kernels count: 64 bits, so that it has one type wherever it comes from."""
    return np.int64(value)  # type: ignore[return-value]


class Bvh(NamedTuple):
    """The hierarchy that rays use; see tracer.kernels.bvh_collapse. bounds (7,) float64: the lower and upper
    corner of everything, and the largest coordinate of all."""

    boxes: NDArray[np.float32]
    children: NDArray[np.int32]
    corners: NDArray[np.float32]
    members: NDArray[np.int32]
    bounds: NDArray[np.float64]


class Geometry(NamedTuple):
    """triangles (t, 3) int32 into positions (v, 3) float32."""

    triangles: NDArray[np.int32]
    positions: NDArray[np.float32]


GROUP = 8
"""Triangles that share a hint of which shape they are of."""


class Surfaces(NamedTuple):
    """What triangles are made of. shape_hints (t / GROUP,) int32: the row of shapes of each group's first
    triangle; see shape_of."""

    shape_hints: NDArray[np.int32]
    shapes: Records
    materials: Records
    normals: NDArray[np.float32]
    tangents: NDArray[np.float32]
    uvs: NDArray[np.float32]
    colors: NDArray[np.float32]


@inlined
def shape_of(surfaces: Surfaces, triangle: int) -> int:
    """The row of shapes that a triangle belongs to. Kept for each triangle it would be four bytes more."""
    shape = as_int(surfaces.shape_hints[triangle // GROUP])
    while triangle >= surfaces.shapes[shape].end_triangle:
        shape += 1
    return shape


class Textures(NamedTuple):
    """Texels of all images in one row: bytes (n, 4) uint8 or floats (m, 4) float32.

    decode (2, 256) float32: what an 8-bit value stands for, linear or sRGB encoded.
    """

    uses: Records
    images: Records
    bytes: NDArray[np.uint8]
    floats: NDArray[np.float32]
    decode: NDArray[np.float32]


class Lights(NamedTuple):
    """Everything that emits, but for the environment.

    choice (3,) float64: probabilities of sampling an emissive triangle, a punctual light, the environment.
    emitters (e,) int32: triangles; emitter_cdf (e + 1,) float64 over them, by power.
    emitter_pdf (t,) float32: probability per area of a triangle's points; (1,) where nothing emits.
    """

    choice: NDArray[np.float64]
    emitters: NDArray[np.int32]
    emitter_cdf: NDArray[np.float64]
    emitter_pdf: NDArray[np.float32]
    punctual: Records


class Sky(NamedTuple):
    """The environment. pixels (h, w, 3) float32, scale multiplied in.

    row_cdf (h + 1,) float64 and column_cdf (h, w + 1) float32 choose a cell; cos_edges (h + 1,) float64 are
    the cosines between rows. turn (2,) float64: cosine and sine of the rotation about +Y.
    """

    pixels: NDArray[np.float32]
    row_cdf: NDArray[np.float64]
    column_cdf: NDArray[np.float32]
    cos_edges: NDArray[np.float64]
    turn: NDArray[np.float64]


class SceneArrays(NamedTuple):
    frame: Records
    bvh: Bvh
    geometry: Geometry
    surfaces: Surfaces
    textures: Textures
    lights: Lights
    sky: Sky


def records(dtype: np.dtype[Any], rows: list[dict[str, Any]]) -> Records:
    """Rows of a record array, at least one: Numba may look at row 0 before it knows it is not needed."""
    array = np.zeros(max(1, len(rows)), dtype)
    for index, row in enumerate(rows):
        for name, value in row.items():
            array[name][index] = value
    return array
