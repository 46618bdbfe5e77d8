"""The turntable, with a moment at which its camera collapses to a point and so looks nowhere."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

from tests.system.farm import ROOT

TURNTABLE = ROOT / "scenes" / "turntable.glb"
FPS = 50
"""The table turns once in its four seconds: 200 frames."""
FLOAT = 5126


def with_a_bad_frame(target: Path, frame: int) -> Path:
    """Writes the scene as a .glb. It is a valid one, and every frame but this one can be rendered."""
    data = TURNTABLE.read_bytes()
    size = struct.unpack_from("<I", data, 12)[0]
    document = json.loads(data[20 : 20 + size])
    collapse(document, frame)
    text = json.dumps(document).encode()
    text += b" " * (-len(text) % 4)
    rest = data[20 + size :]
    header = struct.pack("<4sII", b"glTF", 2, 20 + len(text) + len(rest))
    target.write_bytes(header + struct.pack("<I4s", len(text), b"JSON") + text + rest)
    return target


def collapse(document: dict[str, Any], frame: int) -> None:
    """Adds a scale of 0 for as long as one frame lasts."""
    times = np.array([0.0, (frame - 0.5) / FPS, (frame + 0.5) / FPS], "<f4").tobytes()
    scales = np.repeat(np.array([1.0, 0.0, 1.0], "<f4"), 3).tobytes()
    uri = "data:application/octet-stream;base64," + base64.b64encode(times + scales).decode()

    def add(kind: str, **fields: Any) -> int:
        document[kind].append(fields)
        return len(document[kind]) - 1

    buffer = add("buffers", uri=uri, byteLength=len(times + scales))
    accessors = []
    for offset, part, shape in ((0, times, "SCALAR"), (len(times), scales, "VEC3")):
        view = add("bufferViews", buffer=buffer, byteOffset=offset, byteLength=len(part))
        accessors.append(add("accessors", bufferView=view, componentType=FLOAT, count=3, type=shape))
    camera = next(number for number, node in enumerate(document["nodes"]) if "camera" in node)
    animation = document["animations"][0]
    animation["samplers"].append({"input": accessors[0], "output": accessors[1], "interpolation": "STEP"})
    channel = {"sampler": len(animation["samplers"]) - 1, "target": {"node": camera, "path": "scale"}}
    animation["channels"].append(channel)
