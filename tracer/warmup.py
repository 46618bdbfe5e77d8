"""A tiny scene that makes every kernel compile: textures, an emitter, all kinds of lights, a picture sky."""

from __future__ import annotations

import numpy as np

from tracer.build import PreparedScene, prepare
from tracer.scene import (
    Environment,
    Instance,
    Light,
    LightKind,
    Material,
    Mesh,
    Scene,
    Texture,
    TextureUse,
    View,
)


def scene() -> PreparedScene:
    positions = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], np.float64)
    triangles = np.array([[0, 1, 2], [0, 2, 3]])
    mesh = Mesh("quad", positions, triangles, 0, uv0=positions[:, :2].astype(np.float32))
    bytes_, floats = np.full((1, 1, 4), 255, np.uint8), np.ones((1, 1, 4), np.float32)
    return prepare(
        Scene(
            meshes=(mesh,),
            materials=(
                Material(
                    base_color_texture=TextureUse(0), emissive_texture=TextureUse(1), emissive=(1.0, 1.0, 1.0)
                ),
            ),
            textures=(Texture("bytes", bytes_), Texture("floats", floats)),
            instances=(Instance(0, np.eye(4)),),
            lights=(Light(LightKind.POINT, (1.0, 1.0, 1.0)),),
            environment=Environment(np.ones((2, 4, 3), np.float32)),
        ),
        View(width=2, height=2, max_depth=3),
    )
