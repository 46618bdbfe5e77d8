"""glTF materials: metallic-roughness and the extensions that tracer.scene.Material has fields for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tracer.errors import SceneUnsupported
from tracer.kernels import in_python
from tracer.kernels.mathematics import cos_sin_turns
from tracer.loaders.buffers import Buffers
from tracer.loaders.container import Element
from tracer.loaders.textures import Pictures, Pixels
from tracer.references import is_data_uri, shorten
from tracer.scene import AlphaMode, Material, Texture, TextureUse, Wrap

TWO_PI = 6.283185307179586
STRONGEST = 1e30
"""Of an emissive strength: more leaves float32 once it is multiplied."""
WRAPS = {10497: Wrap.REPEAT, 33071: Wrap.CLAMP, 33648: Wrap.MIRROR}
NEAREST, LINEAR = 9728, 9729

_cos_sin = in_python(cos_sin_turns)


@dataclass
class Materials:
    """Reads what meshes use, when they use it: materials by number, and their textures."""

    top: Element
    buffers: Buffers
    pictures: Pictures
    warnings: list[str]

    def __post_init__(self) -> None:
        self._elements = self.top.children("materials")
        self._textures = self.top.children("textures")
        self._images = self.top.children("images")
        self._samplers = self.top.children("samplers")
        self._numbers: dict[int | None, int] = {}
        self._texture_numbers: dict[int, int] = {}
        self._decoded: dict[int, Pixels] = {}
        self.materials: list[Material] = []
        self.textures: list[Texture] = []

    def use(self, primitive: Element) -> int:
        """The number in self.materials of the primitive's material; the default one where it has none."""
        number = primitive.index("material", len(self._elements))
        if number not in self._numbers:
            material = Material(name="default") if number is None else self._material(self._elements[number])
            self._numbers[number] = len(self.materials)
            self.materials.append(material)
        return self._numbers[number]

    def _material(self, m: Element) -> Material:
        pbr = m.child("pbrMetallicRoughness") or Element(m.file, "", {})
        red, green, blue, alpha = pbr.numbers("baseColorFactor", (1.0,) * 4, 0.0, 1.0)
        normal = m.child("normalTexture")
        modes = {mode.name: mode for mode in AlphaMode}
        mode = m.string("alphaMode", "OPAQUE")
        if mode not in modes:
            raise m.fail("alphaMode", f"is none of {' '.join(modes)}")
        material = Material(
            name=m.name(),
            base_color=(red, green, blue, alpha),
            base_color_texture=self._use_texture(pbr, "baseColorTexture"),
            metallic=pbr.number("metallicFactor", 1.0, 0.0, 1.0),
            roughness=pbr.number("roughnessFactor", 1.0, 0.0, 1.0),
            metallic_roughness_texture=self._use_texture(pbr, "metallicRoughnessTexture"),
            emissive=m.rgb("emissiveFactor", 0.0, 1.0),
            emissive_texture=self._use_texture(m, "emissiveTexture"),
            normal_texture=self._use_texture(m, "normalTexture"),
            normal_scale=1.0 if normal is None else normal.number("scale", 1.0),
            alpha_mode=modes[mode],
            alpha_cutoff=m.number("alphaCutoff", 0.5, 0.0),
            double_sided=m.flag("doubleSided"),
            unlit=m.extension("KHR_materials_unlit") is not None,
        )
        return self._extended(material, m)

    def _extended(self, material: Material, m: Element) -> Material:
        if (e := m.extension("KHR_materials_emissive_strength")) is not None:
            strength = e.number("emissiveStrength", 1.0, 0.0, STRONGEST)
            r, g, b = material.emissive
            material = replace(material, emissive=(r * strength, g * strength, b * strength))
        if (e := m.extension("KHR_materials_ior")) is not None:
            ior = e.number("ior", 1.5, 0.0)
            if 0.0 < ior < 1.0:
                raise e.fail("ior", f"{ior:g} is neither 0 nor at least 1")
            material = replace(material, ior=ior)
        if (e := m.extension("KHR_materials_specular")) is not None:
            material = replace(
                material,
                specular=e.number("specularFactor", 1.0, 0.0, 1.0),
                specular_texture=self._use_texture(e, "specularTexture"),
                specular_color=e.rgb("specularColorFactor", 1.0),
                specular_color_texture=self._use_texture(e, "specularColorTexture"),
            )
        if (e := m.extension("KHR_materials_transmission")) is not None:
            material = replace(
                material,
                transmission=e.number("transmissionFactor", 0.0, 0.0, 1.0),
                transmission_texture=self._use_texture(e, "transmissionTexture"),
            )
        if (e := m.extension("KHR_materials_volume")) is not None:
            if "thicknessTexture" in e:
                self.warnings.append(f"{e.where('thicknessTexture')}: ignored; the mesh is its own thickness")
            distance = e.number("attenuationDistance", 0.0, 0.0)
            if "attenuationDistance" in e and distance == 0.0:
                raise e.fail("attenuationDistance", "is not above 0")
            material = replace(
                material,
                thickness=e.number("thicknessFactor", 0.0, 0.0),
                attenuation_distance=distance or float("inf"),
                attenuation_color=e.rgb("attenuationColor", 1.0, 1.0),
            )
        return material

    def _use_texture(self, owner: Element, key: str) -> TextureUse | None:
        info = owner.child(key)
        if info is None:
            return None
        number = info.index("index", len(self._textures))
        if number is None:
            raise info.fail("index", "is missing")
        texcoord = info.integer("texCoord", 0)
        transform = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
        if (e := info.extension("KHR_texture_transform")) is not None:
            texcoord = e.integer("texCoord", texcoord)
            transform = _transform(e)
        if texcoord > 1:
            raise SceneUnsupported(
                f"{info.where('texCoord')}: TEXCOORD_{texcoord}; only TEXCOORD_0 and TEXCOORD_1 are read"
            )
        return TextureUse(self._texture(number), texcoord, transform)

    def _texture(self, number: int) -> int:
        """The number in self.textures of the file's texture."""
        if number not in self._texture_numbers:
            element = self._textures[number]
            image = element.index("source", len(self._images))
            if image is None:
                extensions = element.child("extensions")
                others = "" if extensions is None else f", only {shorten(', '.join(extensions.value))}"
                raise SceneUnsupported(f"{element.where('source')}: no PNG or JPEG picture{others}")
            sampler = element.index("sampler", len(self._samplers))
            settings = Element(element.file, "", {}) if sampler is None else self._samplers[sampler]
            texture = Texture(
                name=element.name() or self._images[image].name(),
                pixels=self._pixels(image),
                wrap_u=_wrap(settings, "wrapS"),
                wrap_v=_wrap(settings, "wrapT"),
                linear_filter=settings.integer("magFilter", LINEAR) != NEAREST,
            )
            self._texture_numbers[number] = len(self.textures)
            self.textures.append(texture)
        return self._texture_numbers[number]

    def _pixels(self, number: int) -> Pixels:
        if number not in self._decoded:
            image = self._images[number]
            if "uri" in image:
                data = self.buffers.read_uri(image, "uri")
            else:
                view = self.buffers.view(image, "bufferView")
                if view is None:
                    raise image.fail("uri", "is missing, and so is bufferView")
                data = bytes(view.data)
            uri = image.string("uri", "")
            shown = image.where() if not uri or is_data_uri(uri) else f"{image.where()}: {shorten(uri)}"
            self._decoded[number] = self.pictures.decode(data, shown)
        return self._decoded[number]


def _wrap(sampler: Element, key: str) -> Wrap:
    value = sampler.integer(key, 10497)
    if value not in WRAPS:
        raise sampler.fail(key, f"{value} is none of {sorted(WRAPS)}")
    return WRAPS[value]


def _transform(e: Element) -> tuple[float, float, float, float, float, float]:
    """offset * rotation * scale; positive angles turn u towards -v, as every implementation has it
    (the listing in the extension's text has the other sign)."""
    (ox, oy), (sx, sy) = e.numbers("offset", (0.0, 0.0)), e.numbers("scale", (1.0, 1.0))
    c, s = _cos_sin(e.number("rotation", 0.0) / TWO_PI)
    return (c * sx, s * sy, ox, -s * sx, c * sy, oy)
