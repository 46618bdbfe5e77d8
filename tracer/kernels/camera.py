"""The perspective camera, with a thin lens where it has an aperture."""

from __future__ import annotations

import math

from tracer.kernels import inlined
from tracer.kernels.layout import Record
from tracer.kernels.mathematics import Vec3, add, cos_sin_turns, normalize, scale, sub, vector


@inlined
def camera_ray(view: Record, x: float, y: float, u: float, v: float) -> tuple[Vec3, Vec3]:
    """(origin, unit direction) through the point (x, y) of the picture, in pixels from its top left.

    u, v choose a point of the lens, evenly by area.
    """
    sx = (2.0 * x / view.width - 1.0) * view.tan_x
    sy = (1.0 - 2.0 * y / view.height) * view.tan_y
    right, up = vector(view.right), vector(view.up)
    origin = vector(view.origin)
    d = add(vector(view.forward), add(scale(right, sx), scale(up, sy)))
    if view.aperture_radius > 0.0:
        focus = scale(d, view.focus_distance)  # from the lens' centre: d goes 1 along the view axis
        c, s = cos_sin_turns(v)
        r = view.aperture_radius * math.sqrt(u)
        lens = add(scale(right, r * c), scale(up, r * s))
        origin = add(origin, lens)
        d = sub(focus, lens)
    return origin, normalize(d)
