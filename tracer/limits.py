"""What a scene may ask for before it is refused as unsupported."""

from __future__ import annotations

import sys
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Limits:
    texture_pixels: int = 1 << 26
    """Of one texture or environment, checked before it is decoded."""
    total_texture_bytes: int = 8 << 30
    """Of all decoded textures."""
    triangles: int = 50_000_000
    """After instances are expanded."""
    nodes: int = 1_000_000
    """Of a glTF file, and meshes placed by them."""
    file_bytes: int = 4 << 30
    """Of one file."""


ADMITTED = Limits(
    texture_pixels=sys.maxsize,
    total_texture_bytes=sys.maxsize,
    triangles=sys.maxsize,
    nodes=sys.maxsize,
    file_bytes=sys.maxsize,
)
"""For a scene that has passed a farm's limits already."""
