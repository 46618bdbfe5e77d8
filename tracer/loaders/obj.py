"""Wavefront OBJ: polygons with texture coordinates, normals, colours, and the materials of MTLs."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO

import numpy as np
from numpy.typing import NDArray

from tracer.errors import FileAbsent, SceneInvalid, SceneUnsupported
from tracer.kernels.decode import decode_srgb
from tracer.limits import Limits
from tracer.loaders.container import LARGEST
from tracer.loaders.mtl import GREY, Library
from tracer.loaders.polygons import triangulate
from tracer.loaders.textures import Pictures
from tracer.references import locate, material_libraries, shorten
from tracer.scene import Instance, Mesh, Progress, Scene, SceneFiles

BEAT = 20_000
"""Lines between two calls of progress."""
IGNORED = frozenset({"o", "g", "s", "vp", "mg", "usemap", "maplib", "lod", "bevel", "c_interp", "d_interp"})
SKIPPED = {"l": "lines", "p": "points", "curv": "curves", "curv2": "curves", "surf": "surfaces"}
NONE = -1
"""A corner without texture coordinates, or without a normal."""


@dataclass
class Faces:
    """corners: (vertex, uv, normal) of each corner, one face after the other; lines: of each face."""

    sizes: array[int] = field(default_factory=lambda: array("q"))
    corners: array[int] = field(default_factory=lambda: array("q"))
    lines: array[int] = field(default_factory=lambda: array("q"))


@dataclass
class Parsed:
    """What an OBJ says, as flat arrays. colors is empty where no vertex has one."""

    positions: array[float] = field(default_factory=lambda: array("d"))
    colors: array[float] = field(default_factory=lambda: array("d"))
    uvs: array[float] = field(default_factory=lambda: array("d"))
    normals: array[float] = field(default_factory=lambda: array("d"))
    faces: dict[tuple[str, bool, bool], Faces] = field(default_factory=dict)
    """By material, and whether all corners of a face have texture coordinates, and normals."""
    libraries: dict[str, str] = field(default_factory=dict)
    """Path in the bundle to the place that names it."""
    skipped: dict[str, int] = field(default_factory=dict)


def load_obj(entry: str, files: SceneFiles, limits: Limits, progress: Progress) -> Scene:
    """Raises SceneInvalid, SceneUnsupported and AssetMissing, naming the line."""
    data = files.read(entry)
    if len(data) > limits.file_bytes:
        raise SceneUnsupported(f"{entry}: {len(data)} bytes; at most {limits.file_bytes} are read")
    parsed = _parse(data, entry, progress)
    warnings = [f"{entry}: {count} {what} are skipped" for what, count in parsed.skipped.items()]
    pictures = Pictures(limits, progress)
    library = Library(files, pictures, warnings)
    for path, where in parsed.libraries.items():
        try:
            text = files.read(path)
        except FileAbsent:
            warnings.append(f"{where}: material library {shorten(path)} is missing")
        else:
            library.add(path, text)
    if not parsed.faces:
        raise SceneInvalid(f"{entry}: nothing to render: it has no faces")
    names = list(dict.fromkeys(material for material, _, _ in parsed.faces))
    for name in names:
        if name and name not in library.materials:
            warnings.append(f"{entry}: there is no material {shorten(name)}: shown grey")
    meshes = _meshes(parsed, names, entry, progress)
    return Scene(
        meshes=meshes,
        materials=tuple(library.materials.get(name, GREY) for name in names),
        textures=tuple(library.textures),
        instances=tuple(Instance(number, np.eye(4)) for number in range(len(meshes))),
        warnings=tuple(warnings + pictures.warnings),
    )


def _lines(data: bytes) -> Iterator[tuple[int, list[str]]]:
    """(number, words) of each line that says something; a backslash at its end joins the next."""
    held, first = "", 0
    for number, line in enumerate(BytesIO(data), 1):
        text = line.decode("utf-8", "replace").rstrip()
        if text.endswith("\\"):
            held, first = f"{held}{text[:-1]} ", first or number
            continue
        words = (held + text).partition("#")[0].split()
        if words:
            yield first or number, words
        held, first = "", 0


def _parse(data: bytes, entry: str, progress: Progress) -> Parsed:
    parsed, material = Parsed(), ""
    for count, (number, words) in enumerate(_lines(data)):
        if count % BEAT == 0:
            progress(f"{entry}: reading line {number}")
        key = words[0]
        try:
            if key == "v":
                _vertex(parsed, words)
            elif key == "vt":
                values = (*map(float, words[1:3]), 0.0)
                parsed.uvs.extend((values[0], 1.0 - values[1]))  # v runs up here, down in our pictures
            elif key == "vn":
                x, y, z = map(float, words[1:4])
                parsed.normals.extend((x, y, z))
            elif key == "f":
                _face(parsed, words, material, number)
            elif key == "usemtl":
                material = " ".join(words[1:])
            elif key == "mtllib":
                for name in material_libraries(" ".join(words[1:])):
                    path = locate(entry, name, f"line {number}")
                    parsed.libraries.setdefault(path, f"{entry}: line {number}")
            elif key in SKIPPED:
                parsed.skipped[SKIPPED[key]] = parsed.skipped.get(SKIPPED[key], 0) + 1
            elif key not in IGNORED:
                what = f"statements {shorten(key)[1:-1]}"
                parsed.skipped[what] = parsed.skipped.get(what, 0) + 1
        except (ValueError, IndexError) as error:
            shown = shorten(" ".join(words))
            raise SceneInvalid(f"{entry}: line {number}: not a valid statement: {shown}") from error
    return parsed


def _vertex(parsed: Parsed, words: list[str]) -> None:
    """x y z, x y z w, or x y z r g b."""
    values = [float(word) for word in words[1:]]
    parsed.positions.extend((values[0], values[1], values[2]))
    if len(values) >= 6:
        missing = len(parsed.positions) - 3 - len(parsed.colors)
        parsed.colors.extend([1.0] * missing)  # of vertices before it that have none
        parsed.colors.extend(values[3:6])


def _face(parsed: Parsed, words: list[str], material: str, number: int) -> None:
    if len(words) < 4:
        parsed.skipped["faces of fewer than 3 corners"] = (
            parsed.skipped.get("faces of fewer than 3 corners", 0) + 1
        )
        return
    counts = (len(parsed.positions) // 3, len(parsed.uvs) // 2, len(parsed.normals) // 3)
    corners = []
    for word in words[1:]:
        parts = word.split("/")
        if len(parts) > 3 or not parts[0]:
            raise ValueError
        for part, count in zip(parts, counts, strict=False):
            # Negative numbers count back from the newest element; 0 is none.
            index = int(part) if part else 0
            if part and index == 0:
                raise ValueError
            corners.append(index - 1 if index > 0 else count + index if index < 0 else NONE)
            if index < 0 and corners[-1] < 0:
                raise ValueError
        corners.extend([NONE] * (3 - len(parts)))
    key = (material, NONE not in corners[1::3], NONE not in corners[2::3])
    faces = parsed.faces.setdefault(key, Faces())
    faces.sizes.append(len(words) - 1)
    faces.corners.extend(corners)
    faces.lines.append(number)


def _meshes(parsed: Parsed, names: list[str], entry: str, progress: Progress) -> tuple[Mesh, ...]:
    positions = np.array(parsed.positions).reshape(-1, 3)
    uvs = np.array(parsed.uvs).reshape(-1, 2)
    normals = np.array(parsed.normals).reshape(-1, 3)
    colors = _colors(parsed, len(positions))
    for what, values in (("v", positions), ("vt", uvs), ("vn", normals), ("v", parsed.colors)):
        finite = np.abs(np.asarray(values)) <= LARGEST
        if not finite.all():
            first = int(np.flatnonzero(~finite.reshape(-1))[0]) // (2 if what == "vt" else 3)
            raise SceneInvalid(
                f"{entry}: {what} number {first + 1} is not finite (NaN or infinite), or too large"
            )
    meshes = []
    for (material, has_uv, has_normals), faces in parsed.faces.items():
        progress(f"{entry}: joining the corners of {len(faces.sizes)} faces")
        corners = np.array(faces.corners).reshape(-1, 3)
        used = (True, has_uv, has_normals)
        _check_indices(corners, faces, used, (len(positions), len(uvs), len(normals)), entry)
        vertices, numbers = _distinct(corners * np.array(used))
        triangles = triangulate(positions[corners[:, 0]], np.array(faces.sizes), progress, entry)
        meshes.append(
            Mesh(
                name=material or "default",
                positions=positions[vertices[:, 0]],
                triangles=numbers[triangles],
                material=names.index(material),
                normals=normals[vertices[:, 2]].astype(np.float32) if has_normals else None,
                uv0=uvs[vertices[:, 1]].astype(np.float32) if has_uv else None,
                colors=None if colors is None else colors[vertices[:, 0]],
            )
        )
    return tuple(meshes)


def _colors(parsed: Parsed, vertices: int) -> NDArray[np.float32] | None:
    """(n, 4) linear; what the file holds is sRGB encoded, as all that write it have it."""
    if not parsed.colors:
        return None
    colors = np.ones((vertices, 4), np.float32)
    given = np.array(parsed.colors).reshape(-1, 3)
    colors[: len(given), :3] = np.clip(given, 0.0, 1.0)
    decode_srgb(colors)
    return colors


def _check_indices(
    corners: NDArray[np.int64],
    faces: Faces,
    used: tuple[bool, bool, bool],
    counts: tuple[int, int, int],
    entry: str,
) -> None:
    for column, what in enumerate(("vertex", "texture coordinate", "normal")):
        wrong = used[column] & (corners[:, column] >= counts[column])
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            face = int(np.searchsorted(np.cumsum(faces.sizes), at, side="right"))
            number = int(corners[at, column]) + 1
            raise SceneInvalid(
                f"{entry}: line {faces.lines[face]}: there is no {what} {number} among {counts[column]}"
            )


def _distinct(corners: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(the distinct rows, for each row its number among them)."""
    order = np.lexsort(corners.T[::-1])
    ordered = corners[order]
    new = np.ones(len(ordered), bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    numbers = np.empty(len(corners), np.int64)
    numbers[order] = np.cumsum(new) - 1
    return ordered[new], numbers
