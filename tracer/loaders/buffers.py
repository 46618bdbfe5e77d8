"""The bytes behind a glTF: buffers and views of them. Nothing is allocated for what is only announced."""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from tracer.errors import AssetMissing, SceneInvalid, SceneUnsupported
from tracer.limits import Limits
from tracer.loaders.container import Element
from tracer.references import is_data_uri, locate_uri
from tracer.scene import Progress, SceneFiles


class View(NamedTuple):
    """A bufferView: its bytes, and its stride or None."""

    data: memoryview
    stride: int | None


class Buffers:
    """Reads each buffer once, when it is first needed."""

    def __init__(
        self, top: Element, binary: memoryview | None, files: SceneFiles, limits: Limits, progress: Progress
    ) -> None:
        self._file, self._files, self._limits, self._progress = top.file, files, limits, progress
        self._binary = binary
        self._buffers = top.children("buffers")
        self._views = top.children("bufferViews")
        self._loaded: dict[int, memoryview] = {}

    def view(self, element: Element, key: str) -> View | None:
        """The bufferView that element's key names; None where it names none."""
        number = element.index(key, len(self._views))
        if number is None:
            return None
        view = self._views[number]
        buffer = view.index("buffer", len(self._buffers))
        if buffer is None:
            raise view.fail("buffer", "is missing")
        data = self._buffer(buffer)
        offset = view.integer("byteOffset", 0)
        length = view.integer("byteLength", low=1)
        if offset + length > len(data):
            raise view.fail(
                "byteLength", f"bytes {offset}..{offset + length} of a buffer that has {len(data)}"
            )
        stride = None
        if "byteStride" in view:
            stride = view.integer("byteStride", low=4, high=252)
            if stride % 4:
                raise view.fail("byteStride", f"{stride} is not a multiple of 4")
        return View(data[offset : offset + length], stride)

    def read_uri(self, element: Element, key: str) -> bytes:
        """What a URI holds or names, as bytes."""
        uri = element.string(key)
        if is_data_uri(uri):
            data = _decode_data_uri(element, key, uri)
        else:
            path = locate_uri(self._file, uri, element.where(key).partition(": ")[2])
            self._progress(f"reading {path}")
            try:
                data = self._files.read(path)
            except AssetMissing as error:
                raise AssetMissing(f"{element.where(key)}: {error}") from error
        if len(data) > self._limits.file_bytes:
            raise SceneUnsupported(
                f"{element.where(key)}: {len(data)} bytes; at most {self._limits.file_bytes} are read"
            )
        return data

    def _buffer(self, number: int) -> memoryview:
        if number not in self._loaded:
            element = self._buffers[number]
            length = element.integer("byteLength", low=1)
            if "uri" in element:
                data = memoryview(self.read_uri(element, "uri"))
            elif number == 0 and self._binary is not None:
                data = self._binary
            else:
                raise element.fail("uri", "is missing, and no binary chunk stands for it")
            if length > len(data):
                raise element.fail("byteLength", f"announces {length} bytes but there are {len(data)}")
            self._loaded[number] = data[:length]
        return self._loaded[number]


def _decode_data_uri(element: Element, key: str, uri: str) -> bytes:
    header, comma, body = uri.partition(",")
    if not comma:
        raise element.fail(key, "a data URI without a comma")
    data = unquote_to_bytes(body)
    if not header.lower().endswith(";base64"):
        return data
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise SceneInvalid(f"{element.where(key)}: not base64: {error}") from error
