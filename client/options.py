"""The command line's options: what each means, and how its text becomes a value."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from client.errors import BadField, BadInput

if TYPE_CHECKING:
    from client.request import Options


def add_scene_options(parser: argparse.ArgumentParser) -> None:
    """What `render` and `submit` have in common."""
    parser.add_argument("scene", metavar="SCENE", type=Path, help=".gltf, .glb, .obj or .ply")
    parser.add_argument("--project", help="whose frame it is (default: TESSERA_PROJECT, else 'default')")
    parser.add_argument(
        "--frames", default="1", help="1-240, 1-100x2 (x is the step) or 1,3,5-10 (default: 1)"
    )
    parser.add_argument(
        "--every",
        type=int,
        metavar="N",
        help="first each Nth of the frames, for example 10; the rest after `tessera approve`",
    )
    parser.add_argument("--priority", type=int, default=50, help="0 to 100, higher first (default: 50)")
    parser.add_argument(
        "--weight",
        type=float,
        default=1.0,
        help="the project's share beside others, 0.001 to 1000 (default: 1)",
    )
    parser.add_argument("--tile", type=int, metavar="N", help="edge of a tile in pixels, at most 128")
    parser.add_argument(
        "--root", type=Path, metavar="DIR", help="where the scene may refer to (default: its folder)"
    )
    parser.add_argument(
        "--park-limit",
        metavar="AGE",
        help="how long a dead-lettered frame waits: 2d, 12h (default: ever)",
    )
    picture = parser.add_argument_group("picture")
    picture.add_argument("--size", type=size, metavar="WxH", help="default: height 720, the camera's aspect")
    picture.add_argument("--spp", type=int, default=64, metavar="N", help="samples a pixel (default: 64)")
    picture.add_argument(
        "--max-depth", type=int, default=8, metavar="N", help="segments of a path (default: 8)"
    )
    picture.add_argument("--seed", type=int, default=0, metavar="N", help="another noise (default: 0)")
    picture.add_argument("--fps", type=float, default=24.0, help="time of a frame is frame/fps (default: 24)")
    picture.add_argument(
        "--backfaces", choices=("shade", "black"), default="shade", help="single-sided surfaces from behind"
    )
    camera = parser.add_argument_group("camera")
    camera.add_argument("--camera", help="name or number of one of the scene's cameras (default: the first)")
    camera.add_argument("--look-from", type=vector, metavar="X,Y,Z", help="instead of the scene's camera")
    camera.add_argument("--look-at", type=vector, metavar="X,Y,Z", help="default: the scene's centre")
    camera.add_argument("--fov", type=float, metavar="DEG", help="full vertical angle")
    camera.add_argument("--up", choices=("y", "z"), help="which way is up for such a camera (default: y)")
    camera.add_argument("--aperture", type=float, metavar="RADIUS", help="thin lens; needs --focus")
    camera.add_argument("--focus", type=float, metavar="DISTANCE", help="of the plane that is sharp")
    light = parser.add_argument_group("environment")
    light.add_argument("--environment", metavar="FILE|R,G,B", help=".hdr, .exr or .npy, or three numbers")
    light.add_argument("--environment-scale", type=float, metavar="S", help="its brightness (default: 1)")
    light.add_argument("--environment-rotation", type=float, metavar="DEG", help="about the up axis")
    light.add_argument("--hide-environment", action="store_true", help="black, transparent background")


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """What `render` and `fetch` have in common."""
    parser.add_argument(
        *("-o", "--output"),
        action="append",
        required=True,
        metavar="OUT",
        help="ends in .exr, .png or .npy; #### or {frame:04d} is the frame's number; may be repeated",
    )
    parser.add_argument(
        *("--exposure",), type=exposure, default=0.0, metavar="EV|auto", help="stops, for the PNG alone"
    )


def options_of(given: argparse.Namespace, default_project: str) -> Options:
    from client.request import Options

    settings: dict[str, Any] = {
        "max_depth": given.max_depth,
        "seed": given.seed,
        "fps": given.fps,
        "backfaces": given.backfaces,
        "hide_environment": given.hide_environment,
        "environment": environment(given),
    }
    if given.size is not None:
        settings["width"], settings["height"] = given.size
    if given.aperture is not None:
        settings["aperture_radius"] = given.aperture
    if given.focus is not None:
        settings["focus_distance"] = given.focus
    camera = {
        "look_from": given.look_from,
        "look_at": given.look_at,
        "vertical_fov_degrees": given.fov,
        "up": given.up,
    }
    if any(value is not None for value in camera.values()):
        settings["camera_override"] = {key: value for key, value in camera.items() if value is not None}
    return Options(
        project=default_project if given.project is None else given.project,
        camera=given.camera,
        samples_per_pixel=given.spp,
        settings=settings,
        priority=given.priority,
        weight=given.weight,
        tile_size=given.tile,
        root=given.root,
        park_limit_seconds=None if given.park_limit is None else int(age(given.park_limit).total_seconds()),
    )


OPTION_OF = {
    "project_id": "--project",
    "camera": "--camera",
    "frame_number": "--frames",
    "samples_per_pixel": "--spp",
    "priority": "--priority",
    "weight": "--weight",
    "tile_size": "--tile",
    "width": "--size",
    "height": "--size",
    "max_depth": "--max-depth",
    "seed": "--seed",
    "fps": "--fps",
    "aperture_radius": "--aperture",
    "focus_distance": "--focus",
    "environment": "--environment",
    "environment.path": "--environment",
    "environment.radiance": "--environment",
    "environment.scale": "--environment-scale",
    "environment.rotation_degrees": "--environment-rotation",
    "camera_override.look_from": "--look-from",
    "camera_override.look_at": "--look-at",
    "camera_override.vertical_fov_degrees": "--fov",
}
"""Which option a field of the models is set by, for what is wrong with it."""


@contextmanager
def named_as_options() -> Iterator[None]:
    """A fault of a field is told by the name that the person at the command line has written."""
    try:
        yield
    except BadField as error:
        field = error.field
        while field and field not in OPTION_OF:  # a part of a vector is the vector's fault
            field = field.rpartition(".")[0]
        raise BadField(OPTION_OF.get(field, error.field), error.sentence) from error


def environment(given: argparse.Namespace) -> dict[str, Any] | None:
    """Fields of EnvironmentSettings; the path is one on this machine."""
    more = {"scale": given.environment_scale, "rotation_degrees": given.environment_rotation}
    values = {name: value for name, value in more.items() if value is not None}
    if given.environment is None:
        # Without a source it is refused, so that a scale alone is not silently ignored.
        return values or None
    try:
        return values | {"radiance": vector(given.environment)}
    except argparse.ArgumentTypeError:
        return values | {"path": given.environment}


def age(text: str) -> timedelta:
    """7d, 12h, 30m or 45s. Raises BadInput."""
    match = re.fullmatch(r"(\d{1,6})([dhms])", text)
    if match is None:
        raise BadInput(f"{text!r} is no age, for example 7d, 12h or 30m")
    unit = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}[match[2]]
    return timedelta(**{unit: int(match[1])})


def size(text: str) -> tuple[int, int]:
    width, separator, height = text.lower().partition("x")
    if not separator or not width.isdecimal() or not height.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not WIDTHxHEIGHT, for example 1280x720")
    return int(width), int(height)


def vector(text: str) -> tuple[float, float, float]:
    try:
        x, y, z = (float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not three numbers X,Y,Z") from None
    return x, y, z


def exposure(text: str) -> float | None:
    """Stops; None for "auto"."""
    if text == "auto":
        return None
    try:
        stops = float(text)
    except ValueError:
        stops = float("nan")
    if not isfinite(stops):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number of stops nor auto")
    return stops
