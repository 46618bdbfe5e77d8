"""glTF 2.0: .gltf with its files, and .glb. What is not rendered is named in a warning or refused."""

from __future__ import annotations

import math

from tracer.errors import SceneInvalid, SceneUnsupported
from tracer.limits import Limits
from tracer.loaders.accessors import Accessors
from tracer.loaders.animation import read_poses
from tracer.loaders.buffers import Buffers
from tracer.loaders.container import SUPPORTED, Element, open_gltf
from tracer.loaders.materials import Materials
from tracer.loaders.nodes import Matrix, Placed, copies, multiply, walk
from tracer.loaders.primitives import Primitives
from tracer.loaders.textures import Pictures
from tracer.scene import Camera, Instance, Light, LightKind, Progress, Scene, SceneFiles

LIGHTS = "KHR_lights_punctual"
KINDS = {"point": LightKind.POINT, "spot": LightKind.SPOT, "directional": LightKind.DIRECTIONAL}
HALF_PI = 1.5707963267948966


def load_gltf(entry: str, files: SceneFiles, time: float, limits: Limits, progress: Progress) -> Scene:
    """The scene as it stands at `time`, in seconds.

    Raises SceneInvalid, SceneUnsupported and AssetMissing, naming the file and the place in it.
    """
    top, binary = open_gltf(entry, files, limits)
    warnings = _general_warnings(top)
    buffers = Buffers(top, binary, files, limits, progress)
    accessors = Accessors(top, buffers, progress)
    pictures = Pictures(limits, progress)
    materials = Materials(top, buffers, pictures, warnings)
    primitives = Primitives(top, accessors, materials, warnings)
    camera_elements, light_elements = top.children("cameras"), _light_elements(top)
    instances: list[Instance] = []
    lights: list[Light] = []
    cameras: list[Camera] = []
    poses = read_poses(top, accessors, time, warnings)
    for placed in walk(top, poses, limits, warnings, progress):
        node = placed.node
        if "skin" in node:
            warnings.append(f"{node.where('skin')}: skinning is ignored: the mesh is shown at rest")
        instances += _instances(placed, primitives, accessors)
        if len(instances) > limits.nodes:
            raise SceneUnsupported(f"{node.where()}: more than {limits.nodes} meshes are placed")
        lights += _light(placed, light_elements, warnings)
        cameras += _camera(placed, camera_elements, warnings)
    if not instances:
        raise SceneInvalid(f"{entry}: nothing to render: no node of its scene shows triangles")
    return Scene(
        meshes=tuple(primitives.meshes),
        materials=tuple(materials.materials),
        textures=tuple(materials.textures),
        instances=tuple(instances),
        lights=tuple(lights),
        cameras=tuple(cameras),
        warnings=tuple(warnings + pictures.warnings),
    )


def _general_warnings(top: Element) -> list[str]:
    return [
        f"{top.where('extensionsUsed')}: {name} is not supported and is ignored"
        for name in dict.fromkeys(top.strings("extensionsUsed"))
        if name not in SUPPORTED
    ]


def _instances(placed: Placed, primitives: Primitives, accessors: Accessors) -> list[Instance]:
    meshes = primitives.use(placed.node)
    if not meshes:
        return []
    matrices = copies(placed.node, accessors)
    if matrices is None:
        return [Instance(mesh, placed.transform) for mesh in meshes]
    world = [multiply(placed.transform, matrix) for matrix in matrices]
    return [Instance(mesh, transform) for transform in world for mesh in meshes]


def _camera(placed: Placed, elements: list[Element], warnings: list[str]) -> list[Camera]:
    number = placed.node.index("camera", len(elements))
    if number is None:
        return []
    element = elements[number]
    name = placed.node.name() or element.name()
    kind = element.string("type")
    if kind == "orthographic":
        warnings.append(f"{element.where()}: the orthographic camera {name!r} is skipped")
        return []
    if kind != "perspective":
        raise element.fail("type", "is neither perspective nor orthographic")
    perspective = element.required("perspective")
    angle = perspective.number("yfov", None, 0.0, math.pi)
    if not 0.0 < angle < math.pi:
        raise perspective.fail("yfov", f"{angle:g} is not between 0 and pi")
    aspect = perspective.number("aspectRatio", None, 0.0) if "aspectRatio" in perspective else None
    if aspect == 0.0:
        raise perspective.fail("aspectRatio", "is not above 0")
    return [Camera(name=name, transform=placed.transform, vertical_fov=angle, aspect=aspect)]


def _light_elements(top: Element) -> list[Element]:
    library = top.extension(LIGHTS)
    return [] if library is None else library.children("lights")


def _light(placed: Placed, elements: list[Element], warnings: list[str]) -> list[Light]:
    """The node's KHR_lights_punctual light: along -Z, unaffected by scale."""
    use = placed.node.extension(LIGHTS)
    if use is None:
        return []
    number = use.index("light", len(elements))
    if number is None:
        raise use.fail("light", "is missing")
    light = elements[number]
    kind = KINDS.get(light.string("type"))
    if kind is None:
        raise light.fail("type", f"is none of {' '.join(KINDS)}")
    if "range" in light:
        warnings.append(f"{light.where('range')}: ignored; light falls off with the square of the distance")
    inner, outer = 0.0, 0.5 * HALF_PI
    if kind is LightKind.SPOT and (spot := light.child("spot")) is not None:
        outer = spot.number("outerConeAngle", outer, 0.0, HALF_PI)
        inner = spot.number("innerConeAngle", 0.0, 0.0)
        if inner >= outer:
            raise spot.fail("innerConeAngle", f"{inner:g} is not below the outer angle {outer:g}")
    intensity = light.number("intensity", 1.0, 0.0, 1e30)
    r, g, b = light.rgb("color", 1.0)
    x, y, z = placed.transform[:3, 3].tolist()
    return [
        Light(
            kind=kind,
            intensity=(r * intensity, g * intensity, b * intensity),
            position=(x, y, z),
            direction=_direction(placed.node, placed.transform),
            inner_angle=inner,
            outer_angle=outer,
            name=placed.node.name() or light.name(),
        )
    ]


def _direction(node: Element, transform: Matrix) -> tuple[float, float, float]:
    x, y, z = (-transform[:3, 2]).tolist()
    largest = max(abs(x), abs(y), abs(z))
    if largest == 0.0:
        raise node.fail("scale", "leaves its light no direction")
    x, y, z = x / largest, y / largest, z / largest
    length = math.sqrt(x * x + y * y + z * z)
    return (x / length, y / length, z / length)
