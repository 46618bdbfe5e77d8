"""Where a frame is seen from: the scene's camera, the one asked for, or an automatic one."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from tracer.errors import SceneInvalid, SettingsInvalid
from tracer.kernels import in_python
from tracer.kernels import mathematics as m
from tracer.kernels.mathematics import Vec3
from tracer.scene import Camera, Scene, View

AZIMUTH, ELEVATION, FIELD_OF_VIEW = 30.0, 25.0, 40.0
"""Of automatic framing, in degrees."""
HEIGHT = 720
ASPECT = 16.0 / 9.0
LARGEST_EDGE = 16384

add, sub, scale = in_python(m.add), in_python(m.sub), in_python(m.scale)
dot, cross = in_python(m.dot), in_python(m.cross)


class Sphere(NamedTuple):
    """Bounds of a scene."""

    center: Vec3
    radius: float


class Viewpoint(NamedTuple):
    """A camera in the scene's own coordinates: right, up and forward are unit and at right angles."""

    name: str
    width: int
    height: int
    origin: Vec3
    right: Vec3
    up: Vec3
    forward: Vec3
    tan_y: float
    aperture_radius: float
    focus_distance: float
    warnings: tuple[str, ...]

    @property
    def tan_x(self) -> float:
        """The vertical angle is kept when the picture's shape differs from the camera's."""
        return self.tan_y * self.width / self.height


def choose_viewpoint(scene: Scene, view: View, bounds: Sphere) -> Viewpoint:
    """Raises SettingsInvalid for a camera that is not there, SceneInvalid for one that looks nowhere."""
    number = _find_camera(scene.cameras, view.camera)
    camera = None if number is None else scene.cameras[number]
    width, height = _size(view, camera)
    placed = view.look_from is not None or view.look_at is not None
    fov = math.radians(view.vertical_fov_degrees or FIELD_OF_VIEW)
    warnings: tuple[str, ...] = ()
    if camera is None or placed:
        if not placed:
            warnings = ("the scene has no camera: it is framed automatically",)
        name = "automatic" if not placed else "given"
        origin, right, up, forward = _framed(view, bounds, fov, width / height)
    else:
        name = camera.name or str(number)
        if view.vertical_fov_degrees is None:
            fov = camera.vertical_fov
        origin, right, up, forward = _of_camera(camera)
    if not 0.0 < fov < math.pi:
        raise SceneInvalid(
            f"camera {name}: its vertical angle of {math.degrees(fov):g} degrees is not in 0..180"
        )
    aperture, focus = view.aperture_radius, view.focus_distance
    if aperture == 0.0 and camera is not None and not placed:
        aperture, focus = camera.aperture_radius, camera.focus_distance
    if aperture > 0.0 and (focus is None or not focus > 0.0):
        raise SettingsInvalid("an aperture needs a focus distance above 0")
    tan_y = m.tangent(0.5 * fov)
    focus = focus if focus is not None else 1.0
    return Viewpoint(name, width, height, origin, right, up, forward, tan_y, aperture, focus, warnings)


def _find_camera(cameras: tuple[Camera, ...], wanted: str | None) -> int | None:
    """Its number; None where nothing is wanted and there is none."""
    if wanted is None:
        return 0 if cameras else None
    for number, camera in enumerate(cameras):
        if camera.name == wanted:
            return number
    if wanted.isdecimal() and int(wanted) < len(cameras):
        return int(wanted)
    there = ", ".join(f"{i} {c.name!r}" if c.name else str(i) for i, c in enumerate(cameras))
    raise SettingsInvalid(f"there is no camera {wanted!r}; the scene has {there or 'none'}")


def _size(view: View, camera: Camera | None) -> tuple[int, int]:
    if view.width is not None and view.height is not None:
        width, height = view.width, view.height
    else:
        aspect = camera.aspect if camera is not None and camera.aspect else ASPECT
        width, height = max(1, round(min(HEIGHT * aspect, 1e6))), HEIGHT
    if not (1 <= width <= LARGEST_EDGE and 1 <= height <= LARGEST_EDGE):
        raise SettingsInvalid(f"a picture of {width}x{height} pixels: edges are 1 to {LARGEST_EDGE}")
    return width, height


def _framed(view: View, bounds: Sphere, fov: float, aspect: float) -> tuple[Vec3, Vec3, Vec3, Vec3]:
    """A camera that sees the whole bounding sphere, or what of it view does not give itself."""
    z_up = view.up == "z"
    cos_a, sin_a = m.cos_sin_turns(AZIMUTH / 360.0)
    cos_e, sin_e = m.cos_sin_turns(ELEVATION / 360.0)
    away = (cos_e * sin_a, sin_e, cos_e * cos_a)
    up = (0.0, 1.0, 0.0)
    if z_up:
        away, up = (away[0], -away[2], away[1]), (0.0, 0.0, 1.0)
    target = view.look_at if view.look_at is not None else bounds.center
    if view.look_from is not None:
        origin = view.look_from
    else:
        # The narrower of the two half angles has to hold the sphere.
        tangent = m.tangent(0.5 * fov) * min(1.0, aspect)
        sine = tangent / math.sqrt(1.0 + tangent * tangent)
        origin = add(target, scale(away, bounds.radius / sine))
    return _look(origin, sub(target, origin), up, "the camera that was asked for")


def _of_camera(camera: Camera) -> tuple[Vec3, Vec3, Vec3, Vec3]:
    t: Any = camera.transform.tolist()
    origin = (t[0][3], t[1][3], t[2][3])
    back, up = (t[0][2], t[1][2], t[2][2]), (t[0][1], t[1][1], t[2][1])
    return _look(origin, scale(back, -1.0), up, f"camera {camera.name!r}")


def _look(origin: Vec3, forward: Vec3, up: Vec3, name: str) -> tuple[Vec3, Vec3, Vec3, Vec3]:
    """(origin, right, up, forward); up need not be at right angles to forward, nor either be unit."""
    forward = _unit(forward, f"{name} looks nowhere")
    up = _unit(up, f"{name} has no up direction")
    right = cross(forward, up)
    if dot(right, right) < 1e-12:  # straight up or down
        right = cross(forward, (0.0, 0.0, -1.0) if abs(forward[2]) < 0.9 else (0.0, 1.0, 0.0))
    right = _unit(right, f"{name} has no right direction")
    if not all(map(math.isfinite, origin)):
        raise SceneInvalid(f"{name} is nowhere: its position is not finite")
    return origin, right, cross(right, forward), forward


def _unit(v: Vec3, complaint: str) -> Vec3:
    largest = max(map(abs, v))
    if not (0.0 < largest < math.inf):
        raise SceneInvalid(f"{complaint}: its transform has no direction there")
    v = scale(v, 1.0 / largest)  # squares of huge and tiny values would not be finite
    return scale(v, 1.0 / math.sqrt(dot(v, v)))
