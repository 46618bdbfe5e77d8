"""Pictures as textures: PNG and JPEG, and what an MTL may name beside. Sizes are checked before decoding."""

from __future__ import annotations

import struct
import zlib
from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from tracer.errors import SceneInvalid, SceneUnsupported
from tracer.limits import Limits
from tracer.scene import Progress

GLTF_FORMATS = ("PNG", "JPEG")
MTL_FORMATS = ("PNG", "JPEG", "TGA", "BMP")

Pixels = NDArray[np.uint8] | NDArray[np.float32]

_DECODE_ERRORS = (
    OSError,
    SyntaxError,  # what Pillow raises for a broken PNG
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    EOFError,
    OverflowError,
    struct.error,
    zlib.error,
)


class Pictures:
    """Decodes pictures and keeps count of the memory that they take together."""

    def __init__(self, limits: Limits, progress: Progress) -> None:
        self._limits, self._progress = limits, progress
        self._bytes = 0
        self.warnings: list[str] = []

    def decode(self, data: bytes, where: str, formats: tuple[str, ...] = GLTF_FORMATS) -> Pixels:
        """(h, w, 4) uint8, or float32 in 0..1 for a grey picture of 16 bits.

        Raises SceneInvalid for data that is damaged or of another format, SceneUnsupported for a picture
        beyond a limit: before it is decoded.
        """
        self._progress(f"decoding {where}")
        try:
            with Image.open(BytesIO(data), formats=formats) as image:
                self._admit(image, where)
                if data[:4] == b"\x89PNG" and data[24] > 8 and not image.mode.startswith("I"):
                    self.warnings.append(f"{where}: 16 bits a channel are read as 8")
                return _pixels(image)
        except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
            raise SceneUnsupported(
                f"{where}: a texture has at most {self._limits.texture_pixels} pixels; make it smaller"
            ) from error
        except _DECODE_ERRORS as error:
            kinds = " or ".join(formats)
            reason = "" if isinstance(error, UnidentifiedImageError) else f": {error}"
            raise SceneInvalid(f"{where}: not a readable {kinds} picture{reason}") from error

    def _admit(self, image: Image.Image, where: str) -> None:
        width, height = image.size
        if width < 1 or height < 1:
            raise ValueError(f"{width}x{height} pixels")
        if width * height > self._limits.texture_pixels:
            raise SceneUnsupported(
                f"{where}: {width}x{height} pixels; a texture has at most {self._limits.texture_pixels}; "
                "make it smaller"
            )
        self._bytes += width * height * (16 if image.mode.startswith("I") else 4)
        if self._bytes > self._limits.total_texture_bytes:
            raise SceneUnsupported(
                f"{where}: with it the textures take {self._bytes} bytes; "
                f"at most {self._limits.total_texture_bytes} are allowed"
            )


def _pixels(image: Image.Image) -> Pixels:
    if image.mode.startswith("I"):  # grey of 16 bits
        grey = np.asarray(image).astype(np.float64) / 65535.0
        rgba = np.ones((*grey.shape, 4), np.float32)
        rgba[:, :, :3] = grey[:, :, None]
        return rgba
    return np.array(image.convert("RGBA"), np.uint8)
