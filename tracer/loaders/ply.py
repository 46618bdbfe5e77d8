"""PLY: one mesh of triangles and polygons, with normals and colours."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracer.errors import SceneInvalid, SceneUnsupported
from tracer.kernels.decode import decode_srgb
from tracer.limits import Limits
from tracer.loaders.container import LARGEST
from tracer.loaders.mtl import GREY
from tracer.loaders.ply_body import (
    TYPES,
    AsciiBody,
    BinaryBody,
    Body,
    Column,
    Element,
    Property,
    read_element,
)
from tracer.loaders.polygons import triangulate
from tracer.references import shorten
from tracer.scene import Instance, Material, Mesh, Progress, Scene, SceneFiles

MAX_HEADER = 1 << 16
ORDERS = {"binary_little_endian": "<", "binary_big_endian": ">"}
SCALES = {"u1": 255.0, "u2": 65535.0}
"""What stands for full brightness in colours that are integers."""


def load_ply(entry: str, files: SceneFiles, limits: Limits, progress: Progress) -> Scene:
    """Raises SceneInvalid, SceneUnsupported and AssetMissing."""
    data = files.read(entry)
    if len(data) > limits.file_bytes:
        raise SceneUnsupported(f"{entry}: {len(data)} bytes; at most {limits.file_bytes} are read")
    encoding, elements, start = read_header(data, entry)
    body: Body
    if encoding == "ascii":
        body = AsciiBody(data, start, entry, progress)
    else:
        body = BinaryBody(memoryview(data)[start:], ORDERS[encoding])
    columns: dict[str, dict[str, Column]] = {}
    for element in elements:
        columns[element.name] = read_element(body, element, entry, progress)
    kinds = {p.name: p.kind for e in elements if e.name == "vertex" for p in e.properties}
    vertices = columns.get("vertex", {})
    positions = _joined(vertices, ("x", "y", "z"), entry)
    if positions is None:
        raise SceneInvalid(f"{entry}: header: element vertex has no x, y and z")
    warnings: list[str] = []
    triangles = _triangles(columns.get("face", {}), positions, entry, warnings, progress)
    normals = _joined(vertices, ("nx", "ny", "nz"), entry)
    colors = _colors(vertices, kinds, entry)
    mesh = Mesh(
        name=entry.rsplit("/", 1)[-1],
        positions=positions,
        triangles=triangles,
        material=0,
        normals=None if normals is None else normals.astype(np.float32),
        colors=colors,
    )
    material = GREY if colors is None else Material("colours", metallic=0.0, double_sided=True)
    return Scene((mesh,), (material,), (), (Instance(0, np.eye(4)),), warnings=tuple(warnings))


def read_header(data: bytes, file: str) -> tuple[str, list[Element], int]:
    """(encoding, elements, where the body begins)."""
    head = data[:MAX_HEADER]
    end = head.find(b"\nend_header")
    line_end = head.find(b"\n", end + 1)
    if head[:3] != b"ply" or end < 0 or line_end < 0:
        raise SceneInvalid(f"{file}: header: not a PLY file, or its header is cut off")
    encoding, elements = "", list[Element]()
    for number, line in enumerate(head[:end].decode("latin-1").splitlines(), 1):
        match line.split():
            case ["format", name, "1.0"] if name == "ascii" or name in ORDERS:
                encoding = name
            case ["element", name, count] if count.isdecimal() and len(count) < 16:
                elements.append(Element(name, int(count), ()))
            case ["property", "list", length, kind, name] if (
                elements and kind in TYPES and TYPES.get(length, "f4")[0] in "iu"
            ):
                _add(elements, Property(name, TYPES[kind], TYPES[length]), file)
            case ["property", kind, name] if elements and kind in TYPES:
                _add(elements, Property(name, TYPES[kind]), file)
            case [] | ["ply"] | ["comment" | "obj_info", *_]:
                pass
            case _:
                raise SceneInvalid(f"{file}: line {number}: not a PLY header: {shorten(line)}")
    if not encoding:
        raise SceneInvalid(f"{file}: header: no format ascii or binary 1.0")
    if len({element.name for element in elements}) < len(elements):
        raise SceneInvalid(f"{file}: header: two elements have one name")
    return encoding, elements, line_end + 1


def _add(elements: list[Element], new: Property, file: str) -> None:
    last = elements[-1]
    if any(p.name == new.name for p in last.properties):
        raise SceneInvalid(f"{file}: header: {last.name} has two properties {shorten(new.name)}")
    elements[-1] = last._replace(properties=(*last.properties, new))


def _joined(columns: dict[str, Column], names: tuple[str, ...], file: str) -> NDArray[np.float64] | None:
    """(n, len(names)), finite; None where one is missing."""
    if not all(name in columns for name in names):
        return None
    for name in names:
        if (columns[name].lengths != 1).any():
            raise SceneInvalid(f"{file}: header: vertex {name} is a list")
    values = np.stack([columns[name].values for name in names], axis=1)
    finite = (np.abs(values) <= LARGEST).all(axis=1)
    if not finite.all():
        first = int(np.flatnonzero(~finite)[0])
        what = " ".join(names)
        raise SceneInvalid(f"{file}: vertex {first}: {what} is not finite (NaN or infinite), or too large")
    return values


def _colors(columns: dict[str, Column], kinds: dict[str, str], file: str) -> NDArray[np.float32] | None:
    """(n, 4) linear; what the file holds is sRGB encoded, as all that write it have it."""
    for prefix in ("", "diffuse_"):
        names = tuple(prefix + name for name in ("red", "green", "blue"))
        if (rgb := _joined(columns, names, file)) is not None:
            break
    else:
        return None
    alpha = _joined(columns, ("alpha",), file) if "alpha" in columns else None
    colors = np.ones((len(rgb), 4), np.float32)
    colors[:, :3] = np.clip(rgb / SCALES.get(kinds[names[0]], 1.0), 0.0, 1.0)
    if alpha is not None:
        colors[:, 3] = np.clip(alpha[:, 0] / SCALES.get(kinds["alpha"], 1.0), 0.0, 1.0)
    decode_srgb(colors)
    return colors


def _triangles(
    faces: dict[str, Column], points: NDArray[np.float64], file: str, warnings: list[str], progress: Progress
) -> NDArray[np.int64]:
    column = faces.get("vertex_indices", faces.get("vertex_index"))
    if column is None or len(column.lengths) == 0:
        raise SceneInvalid(f"{file}: nothing to render: it has no faces")
    values = column.values
    wrong = ~((values >= 0.0) & (values < len(points)) & (values == np.floor(values)))
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        face = int(np.searchsorted(np.cumsum(column.lengths), at, side="right"))
        raise SceneInvalid(f"{file}: face {face}: there is no vertex {values[at]:g} among {len(points)}")
    corners = values.astype(np.int64)
    usable = column.lengths >= 3
    if not usable.all():
        warnings.append(f"{file}: {int((~usable).sum())} faces of fewer than 3 corners are skipped")
        corners = corners[np.repeat(usable, column.lengths)]
    sizes = column.lengths[usable]
    if len(sizes) == 0:
        raise SceneInvalid(f"{file}: nothing to render: no face has 3 corners")
    return corners[triangulate(points[corners], sizes, progress, file)]
