"""What a scene's files say about other files: one reading of it, for the bundle and for the loaders.

Standard library only: submitting a scene must not load a renderer. Messages read `file: where: what`.
"""

from __future__ import annotations

import json
import posixpath
import re
import struct
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import unquote

from tracer.errors import AssetMissing, SceneInvalid, SceneUnsupported

CHUNK_JSON, CHUNK_BIN = 0x4E4F534A, 0x004E4942
EXTENSIONS = (".gltf", ".glb", ".obj", ".ply")
USED_MAPS = ("map_kd", "map_ke")
"""The textures of an MTL that are rendered; without one of the others the picture is the same."""
IGNORED_MAPS = ("map_ka", "map_ks", "map_ns", "map_d", "map_bump", "map_pr", "map_pm", "bump", "norm", "disp")

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_MAP_OPTIONS = {
    "blendu": 1, "blendv": 1, "cc": 1, "clamp": 1, "boost": 1, "mm": 2, "texres": 1, "imfchan": 1,
    "type": 1, "bm": 1, "o": 3, "s": 3, "t": 3,
}  # fmt: skip
"""Arguments of the options before a file name in an MTL; of o, s and t the last two may be missing."""


class GlbChunks(NamedTuple):
    """The JSON text of a GLB, and where in the file its binary chunk is; stop 0 where there is none."""

    json: bytes
    start: int
    stop: int


class MapReference(NamedTuple):
    """A texture that an MTL names. key is in lower case; options are those before the file name."""

    line: int
    key: str
    name: str
    options: tuple[str, ...]


def scene_kind(path: str) -> str:
    """The extension in lower case, one of EXTENSIONS; SceneUnsupported for others."""
    kind = posixpath.splitext(path)[1].lower()
    if kind not in EXTENSIONS:
        raise SceneUnsupported(f"{path}: not a scene that can be read; known are {' '.join(EXTENSIONS)}")
    return kind


def locate(base: str, reference: str, where: str) -> str:
    """The path in the bundle of what the file `base` refers to, with forward slashes.

    Raises AssetMissing for addresses, absolute paths and what leads out of the root.
    """
    shown = f"{base}: {where}: {shorten(reference)}"
    path = reference.replace("\\", "/")
    if _SCHEME.match(path) or path.startswith("/"):
        raise AssetMissing(
            f"{shown} is an address or an absolute path; only relative paths below the root are read"
        )
    joined = posixpath.normpath(posixpath.join(posixpath.dirname(base), path))
    if joined == ".." or joined.startswith("../"):
        raise AssetMissing(f"{shown} lies outside the scene's root; widen the root with `--root DIR`")
    if not path or "\0" in path or joined == ".":
        raise AssetMissing(f"{shown} is not the name of a file")
    return joined


def locate_uri(base: str, uri: str, where: str) -> str:
    """`locate` for a glTF URI: relative, and percent-encoded."""
    if _SCHEME.match(uri):  # before decoding: what is an address must not become a file's name
        return locate(base, uri, where)
    try:
        return locate(base, unquote(uri, errors="strict"), where)
    except UnicodeDecodeError as error:
        raise SceneInvalid(f"{base}: {where}: {shorten(uri)} is not percent-encoded UTF-8") from error


def is_data_uri(uri: str) -> bool:
    return uri[:5].lower() == "data:"


def shorten(text: str) -> str:
    """Quoted on one line, and short enough for one."""
    return json.dumps(text if len(text) <= 120 else text[:117] + "...", ensure_ascii=False)


def read_glb(file: BinaryIO, size: int, name: str) -> GlbChunks:
    """Walks the chunks of a GLB (glTF 2.0, section 4). Reads the JSON chunk only.

    Raises SceneInvalid where headers and the file's size do not agree.
    """
    header = file.read(12)
    if len(header) < 12 or header[:4] != b"glTF":
        raise SceneInvalid(f"{name}: header: not a GLB file")
    _, version, length = struct.unpack("<3I", header)
    if version != 2:
        raise SceneInvalid(f"{name}: header: GLB version {version}; only version 2 is read")
    if length > size:
        raise SceneInvalid(f"{name}: header: announces {length} bytes but the file has {size}; it is cut off")
    text, at, start, stop = b"", 12, 0, 0
    while at < length:
        file.seek(at)
        head = file.read(8)
        if len(head) < 8 or at + 8 > length:
            raise SceneInvalid(f"{name}: byte {at}: a chunk's header is cut off")
        count, kind = struct.unpack("<2I", head)
        begin, at = at + 8, at + 8 + count
        if at > length:
            raise SceneInvalid(f"{name}: byte {begin - 8}: a chunk of {count} bytes exceeds the file")
        if begin == 20:
            if kind != CHUNK_JSON:
                raise SceneInvalid(f"{name}: byte 12: the first chunk is not JSON")
            text = file.read(count)
        elif kind == CHUNK_BIN and stop == 0:
            start, stop = begin, at
    return GlbChunks(text, start, stop)


def parse_json(data: bytes, name: str) -> dict[str, Any]:
    """The JSON object of a glTF; SceneInvalid for anything else."""
    try:
        value = json.loads(data.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise SceneInvalid(f"{name}: byte {error.start}: not UTF-8") from error
    except json.JSONDecodeError as error:
        raise SceneInvalid(f"{name}: line {error.lineno}: not JSON: {error.msg}") from error
    except ValueError as error:  # a number of thousands of digits, or NaN
        raise SceneInvalid(f"{name}: not JSON: {str(error)[:80]}") from error
    except RecursionError as error:
        raise SceneInvalid(f"{name}: JSON: nested too deeply") from error
    if not isinstance(value, dict):
        raise SceneInvalid(f"{name}: JSON: the top is {type(value).__name__}, not an object")
    return value


def _refuse_constant(constant: str) -> float:
    raise ValueError(f"{constant} is no number")


def gltf_references(gltf: dict[str, Any], name: str) -> Iterator[tuple[str, str]]:
    """(where, path in the bundle) of every external buffer and image."""
    for kind in ("buffers", "images"):
        elements = gltf.get(kind, [])
        if not isinstance(elements, list):
            raise SceneInvalid(f"{name}: {kind}: not an array")
        for number, element in enumerate(elements):
            where = f"{kind}[{number}]"
            uri = element.get("uri") if isinstance(element, dict) else element
            if uri is None:
                continue
            if not isinstance(uri, str):
                raise SceneInvalid(f"{name}: {where}: not an object with a uri that is a string")
            if not is_data_uri(uri):
                yield f"{where}.uri", locate_uri(name, uri, f"{where}.uri")


def material_libraries(rest: str) -> list[str]:
    """File names in what follows `mtllib`: several, and with spaces inside."""
    return re.findall(r"\S.*?\.mtl(?=\s|$)", rest, re.IGNORECASE) or [rest]


def map_references(mtl: bytes) -> Iterator[MapReference]:
    """The textures that an MTL names."""
    for number, line in enumerate(mtl.decode("utf-8", "replace").splitlines(), 1):
        key, rest = [*line.split(maxsplit=1), "", ""][:2]
        if key.lower() in (*USED_MAPS, *IGNORED_MAPS):
            # A name may hold a #, but does not begin with one.
            name, options = _split_options(re.split(r"(?:^|\s)#", rest)[0].strip())
            yield MapReference(number, key.lower(), name, options)


def _split_options(text: str) -> tuple[str, tuple[str, ...]]:
    """(file name, options) of a map's line; the name is the rest of the line, spaces and all."""
    options: list[str] = []
    while match := re.match(r"-(\w+)\s+", text):
        option = match[1].lower()
        text = text[match.end() :]
        options.append(f"-{option}")
        for position in range(_MAP_OPTIONS.get(option, 0)):
            argument, _, rest = text.partition(" ")
            if not rest.strip() or (option in "ost" and position > 0 and not _is_number(argument)):
                break
            text = rest.lstrip()
    return text, tuple(options)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
