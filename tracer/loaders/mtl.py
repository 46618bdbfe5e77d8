"""MTL: the materials of an OBJ. Diffuse colour, emission, opacity and a highlight; the rest is named once."""

from __future__ import annotations

import math
from dataclasses import replace

from tracer.errors import AssetMissing, SceneInvalid
from tracer.loaders.textures import MTL_FORMATS, Pictures
from tracer.references import USED_MAPS, locate, map_references, shorten
from tracer.scene import AlphaMode, Material, SceneFiles, Texture, TextureUse

GREY = Material("default", base_color=(0.8, 0.8, 0.8, 1.0), metallic=0.0, double_sided=True)
"""For files that say nothing. OBJ and PLY do not know sides: both are shown."""
MEANINGLESS = frozenset({"ka", "map_ka", "illum", "tf", "sharpness"})
"""Statements of older lighting models that a path tracer has no use for."""


class Library:
    """The materials of all MTLs that an OBJ names, by name, and their textures."""

    def __init__(self, files: SceneFiles, pictures: Pictures, warnings: list[str]) -> None:
        self._files, self._pictures, self._warnings = files, pictures, warnings
        self._textures: dict[str, int] = {}
        self.materials: dict[str, Material] = {}
        self.textures: list[Texture] = []

    def add(self, path: str, data: bytes) -> None:
        """Reads one MTL. Raises SceneInvalid naming the line, and AssetMissing for a texture."""
        maps = {reference.line: reference for reference in map_references(data)}
        ignored: dict[str, None] = {}
        name: str | None = None
        for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
            words = line.split("#")[0].split()
            key = words[0].lower() if words else ""
            if key == "newmtl":
                name = " ".join(words[1:])
                self.materials[name] = replace(GREY, name=name)
            elif key and name is None:
                raise SceneInvalid(f"{path}: line {number}: {shorten(words[0])} before the first newmtl")
            elif name is not None and key in USED_MAPS:
                use = self._texture(path, number, key, maps[number].name)
                material = self.materials[name]
                self.materials[name] = (
                    replace(material, base_color_texture=use)
                    if key == "map_kd"
                    else replace(material, emissive_texture=use)
                )
                for option in maps[number].options:
                    ignored[f"{words[0]} {option}"] = None
            elif name is not None and key:
                changed = _statement(self.materials[name], key, words[1:], f"{path}: line {number}")
                if changed is None:
                    ignored[words[0]] = None
                else:
                    self.materials[name] = changed
        if named := [word for word in ignored if word.lower() not in MEANINGLESS]:
            self._warnings.append(f"{path}: not rendered: {', '.join(shorten(w)[1:-1] for w in named)}")

    def _texture(self, mtl: str, number: int, key: str, reference: str) -> TextureUse:
        where = f"line {number}: {key}"
        path = locate(mtl, reference, where)
        if path not in self._textures:
            try:
                data = self._files.read(path)
            except AssetMissing as error:
                raise AssetMissing(f"{mtl}: {where}: {error}") from error
            pixels = self._pictures.decode(data, f"{mtl}: {where}: {shorten(path)}", MTL_FORMATS)
            self._textures[path] = len(self.textures)
            self.textures.append(Texture(name=path, pixels=pixels))
        return TextureUse(self._textures[path])


def _statement(material: Material, key: str, words: list[str], where: str) -> Material | None:
    """The material with one statement applied; None for a statement that is not rendered."""
    if key in ("kd", "ke"):
        if words and words[0].lower() in ("spectral", "xyz"):
            return None
        values = _numbers(words[:3], where)
        r, g, b = values if len(values) == 3 else values[:1] * 3  # one number stands for all three
        if key == "ke":
            return replace(material, emissive=(r, g, b))
        color = (min(r, 1.0), min(g, 1.0), min(b, 1.0), material.base_color[3])
        return replace(material, base_color=color)
    if key == "ns":
        # A Phong exponent as a GGX width: alpha = sqrt(2 / (Ns + 2)), and roughness is its square root.
        exponent = _numbers(words, where)[0]
        return replace(material, roughness=math.sqrt(math.sqrt(2.0 / (exponent + 2.0))))
    if key in ("d", "tr"):
        value = min(_numbers(words[-1:], where)[0], 1.0)
        opacity = value if key == "d" else 1.0 - value
        mode = AlphaMode.OPAQUE if opacity == 1.0 else AlphaMode.BLEND
        return replace(material, base_color=(*material.base_color[:3], opacity), alpha_mode=mode)
    return None


def _numbers(words: list[str], where: str) -> list[float]:
    """At least one number, none of them below 0."""
    try:
        values = [float(word) for word in words]
    except ValueError as error:
        raise SceneInvalid(f"{where}: {shorten(' '.join(words))} are not numbers") from error
    if not values or not all(0.0 <= value <= 1e30 for value in values):
        raise SceneInvalid(f"{where}: {shorten(' '.join(words))}: numbers from 0 on are wanted")
    return values
