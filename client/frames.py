"""Frame ranges and output names: what `--frames 1-100x2,3` and `-o shot.####.png` mean."""

from __future__ import annotations

import re
from pathlib import Path

MAX_FRAMES = 10_000
"""Seven minutes of film. A sequence looks through its frames whenever one of them ends."""
EXAMPLE = "for example 1-240, 1-100x2 or 1,3,5-10"

_PART = re.compile(r"(-?\d{1,9})(?:-(-?\d{1,9})(?:x(\d{1,9}))?)?", re.ASCII)
_FIELD = re.compile(r"\{frame:0([1-9]\d?)d\}|(?<!#)####(?!#)", re.ASCII)
"""Two digits at most: a width of a billion would only exhaust the memory."""


def parse_frames(text: str) -> list[int]:
    """The frame numbers in the order given, each once. Raises ValueError with an example."""
    spans = (range(first, last + 1, step) for first, last, step in parse_spans(text))
    return list(dict.fromkeys(number for span in spans for number in span))


def parse_spans(text: str) -> tuple[tuple[int, int, int], ...]:
    """The ranges of frame numbers as (first, last, step), last included. Raises ValueError: see above."""
    spans, total = [], 0
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        if match is None:
            hint = " (several are joined by commas)" if " " in part.strip() else ""
            raise ValueError(f"{part.strip()!r} is no frame range{hint}; {EXAMPLE}")
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if last < first or step < 1:
            raise ValueError(f"{part.strip()!r} has no frames in it; {EXAMPLE}")
        total += (last - first) // step + 1
        if total > MAX_FRAMES:
            raise ValueError(f"{part.strip()!r} makes more than {MAX_FRAMES} frames; {EXAMPLE}")
        spans.append((first, last, step))
    return tuple(spans)


def is_template(output: str) -> bool:
    return _FIELD.search(output) is not None


def output_path(output: str, frame: int) -> Path:
    """The file for one frame: #### and {frame:0Nd} become its number, everything else stays."""
    return Path(_FIELD.sub(lambda match: f"{frame:0{int(match[1] or 4)}d}", output))
