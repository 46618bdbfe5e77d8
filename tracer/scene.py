"""The scene as the loaders leave it and `build.prepare` takes it: plain arrays, no Numba, no files.

Conventions: right-handed, +Y up, metres are the scene's own units, linear Rec.709 colour, row-major
4x4 matrices that act on column vectors, counter-clockwise front faces, texture row 0 at v = 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Progress = Callable[[str], None]
"""Called at least once a second by long work, with what it is doing; may raise to stop the work."""


class SceneFiles(Protocol):
    """The files of one scene, by path relative to the scene's root. Nothing else can be opened."""

    def read(self, path: str) -> bytes:
        """The content; FileAbsent where the bundle has no such file, AssetMissing where it cannot be read."""


class Wrap(IntEnum):
    REPEAT = 0
    CLAMP = 1
    MIRROR = 2


class AlphaMode(IntEnum):
    OPAQUE = 0
    MASK = 1
    BLEND = 2


class LightKind(IntEnum):
    POINT = 0
    SPOT = 1
    DIRECTIONAL = 2


@dataclass(frozen=True)
class Texture:
    """One image with its sampler. pixels: (h, w, 4) uint8, or float32 for more than 8 bits."""

    name: str
    pixels: NDArray[np.uint8] | NDArray[np.float32]
    wrap_u: Wrap = Wrap.REPEAT
    wrap_v: Wrap = Wrap.REPEAT
    linear_filter: bool = True


@dataclass(frozen=True)
class TextureUse:
    """A texture as a material uses it. transform: (2, 3), applied to (u, v, 1) before wrapping."""

    texture: int
    texcoord: int = 0
    transform: tuple[float, float, float, float, float, float] = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)


@dataclass(frozen=True)
class Material:
    """glTF 2.0 metallic-roughness with the factors of KHR extensions. Colours are linear.

    base_color and emissive textures are sRGB encoded; metallic_roughness (G rough, B metal), normal,
    specular (A), specular_color (sRGB) and transmission (R) as the glTF specification says.
    """

    name: str = ""
    base_color: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)
    base_color_texture: TextureUse | None = None
    metallic: float = 1.0
    roughness: float = 1.0
    metallic_roughness_texture: TextureUse | None = None
    emissive: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Radiance, KHR_materials_emissive_strength multiplied in; may exceed 1."""
    emissive_texture: TextureUse | None = None
    normal_texture: TextureUse | None = None
    normal_scale: float = 1.0
    ior: float = 1.5
    specular: float = 1.0
    specular_texture: TextureUse | None = None
    specular_color: tuple[float, float, float] = (1.0, 1.0, 1.0)
    specular_color_texture: TextureUse | None = None
    transmission: float = 0.0
    transmission_texture: TextureUse | None = None
    thickness: float = 0.0
    attenuation_distance: float = float("inf")
    attenuation_color: tuple[float, float, float] = (1.0, 1.0, 1.0)
    alpha_mode: AlphaMode = AlphaMode.OPAQUE
    alpha_cutoff: float = 0.5
    double_sided: bool = False
    unlit: bool = False


@dataclass(frozen=True)
class Mesh:
    """Triangles of one material. Loaders guarantee finite positions and indices in range.

    positions (n, 3) float64; triangles (m, 3) int64; the rest float32 or None:
    normals (n, 3) need not be unit; uv0, uv1 (n, 2); colors (n, 4) linear; tangents (n, 4).
    """

    name: str
    positions: NDArray[np.float64]
    triangles: NDArray[np.int64]
    material: int
    normals: NDArray[np.float32] | None = None
    uv0: NDArray[np.float32] | None = None
    uv1: NDArray[np.float32] | None = None
    colors: NDArray[np.float32] | None = None
    tangents: NDArray[np.float32] | None = None


@dataclass(frozen=True)
class Instance:
    """A mesh placed in the world. transform: (4, 4) float64."""

    mesh: int
    transform: NDArray[np.float64]


@dataclass(frozen=True)
class Light:
    """A punctual light (KHR_lights_punctual).

    intensity: W/sr for point and spot, irradiance on a perpendicular surface for directional.
    direction: unit, the way the light shines. Angles in radians from the axis.
    """

    kind: LightKind
    intensity: tuple[float, float, float]
    position: tuple[float, float, float] = (0.0, 0.0, 0.0)
    direction: tuple[float, float, float] = (0.0, 0.0, -1.0)
    inner_angle: float = 0.0
    outer_angle: float = 0.7853981633974483
    name: str = ""


@dataclass(frozen=True)
class Camera:
    """Looks along its local -Z with +Y up. transform: (4, 4) camera to world, scale ignored.

    aspect (width / height) is what the file wants; None where it does not say.
    """

    name: str
    transform: NDArray[np.float64]
    vertical_fov: float
    """Full vertical angle in radians."""
    aspect: float | None = None
    aperture_radius: float = 0.0
    focus_distance: float = 1.0


@dataclass(frozen=True)
class Environment:
    """Light from infinitely far: L(d) = scale * bilinear lookup at u = atan2(dx, -dz) / 2 pi mod 1,
    v = acos(dy) / pi, texel centres at half integers, u wraps and v clamps; d is first turned by
    -rotation about +Y. pixels: (h, w, 3) float32, (1, 1, 3) for a constant."""

    pixels: NDArray[np.float32]
    scale: float = 1.0
    rotation: float = 0.0
    """Radians about +Y."""


@dataclass(frozen=True)
class Scene:
    """All that a file says. warnings: sentences about what was approximated or ignored."""

    meshes: tuple[Mesh, ...]
    materials: tuple[Material, ...]
    textures: tuple[Texture, ...]
    instances: tuple[Instance, ...]
    lights: tuple[Light, ...] = ()
    cameras: tuple[Camera, ...] = ()
    environment: Environment | None = None
    warnings: tuple[str, ...] = field(default=())


class View(NamedTuple):
    """How one frame looks at a scene: everything of the settings that the tracer needs.

    width and height of None: height 720, width by the camera's aspect, else 16:9.
    camera: name or number; None for the first. look_* override or replace the scene's camera.
    """

    width: int | None = None
    height: int | None = None
    max_depth: int = 8
    seed: int = 0
    frame: int = 1
    camera: str | None = None
    hide_environment: bool = False
    backfaces_black: bool = False
    aperture_radius: float = 0.0
    focus_distance: float | None = None
    look_from: tuple[float, float, float] | None = None
    look_at: tuple[float, float, float] | None = None
    vertical_fov_degrees: float | None = None
    up: str = "y"


class PixelRect(NamedTuple):
    """A tile in pixels, row 0 on top."""

    x: int
    y: int
    width: int
    height: int
