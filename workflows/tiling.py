"""Cutting a picture into tiles: pure arithmetic, the same on every worker and in every replay."""

from __future__ import annotations

from collections.abc import Iterable

from contracts import FramePlan, Tile

MAX_EDGE = 128
"""A tile's largest edge in pixels: one sample of a tile must stay a short slice of work."""
MIN_EDGE = 16
MAX_TILES = 4096
"""More tiles than this would cost more in bookkeeping than they save when a worker dies."""
TARGET_SECONDS = 20.0
"""How long one tile should take on one thread."""
GROUP_SECONDS = 0.5
GROUP_SIZE = 2
"""Tiles that take less than GROUP_SECONDS share an activity with their neighbour. It keeps the history of
a frame of thousands of tiny tiles at three events a tile, whatever the server's batching does."""


def choose_tile_size(width: int, height: int, seconds: float) -> int:
    """The edge of a tile for a frame that takes `seconds` on one thread.

    The largest power of two between MIN_EDGE and MAX_EDGE whose tiles take about TARGET_SECONDS or
    less, but never so small that there are more than MAX_TILES.
    """
    edge = MAX_EDGE
    while edge > MIN_EDGE:
        share = min(edge, width) * min(edge, height) / (width * height)
        if seconds * share <= 1.5 * TARGET_SECONDS or _tile_count(width, height, edge // 2) > MAX_TILES:
            break
        edge //= 2
    return edge


def _tile_count(width: int, height: int, edge: int) -> int:
    return -(-width // edge) * -(-height // edge)


def tile_count(plan: FramePlan) -> int:
    return _tile_count(plan.width, plan.height, plan.tile_size)


def smallest_tile_size(width: int, height: int) -> int:
    """The smallest edge that makes at most MAX_TILES tiles; MAX_EDGE for pictures too large for that."""
    fitting = (edge for edge in range(1, MAX_EDGE) if _tile_count(width, height, edge) <= MAX_TILES)
    return next(fitting, MAX_EDGE)


def group_size(plan: FramePlan, samples: int) -> int:
    """How many tiles one render_tile activity takes."""
    seconds = plan.seconds_per_sample * samples / tile_count(plan)
    return GROUP_SIZE if seconds < GROUP_SECONDS else 1


def tile_at(plan: FramePlan, number: int) -> Tile:
    """The tile of this number; tiles are numbered in rows from the top left corner."""
    edge = plan.tile_size
    row, column = divmod(number, -(-plan.width // edge))
    x, y = column * edge, row * edge
    return Tile(x=x, y=y, width=min(edge, plan.width - x), height=min(edge, plan.height - y))


def place(plan: FramePlan, number: int) -> str:
    """Where a tile is in the picture, for people."""
    per_row = -(-plan.width // plan.tile_size)
    row, column = divmod(number, per_row)
    return f"(row {row + 1} of {-(-plan.height // plan.tile_size)}, column {column + 1} of {per_row})"


def to_ranges(numbers: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """A set of numbers as sorted half-open ranges, small enough to carry for thousands of tiles."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number:
            ranges[-1] = (ranges[-1][0], number + 1)
        else:
            ranges.append((number, number + 1))
    return tuple(ranges)


def from_ranges(ranges: Iterable[tuple[int, int]]) -> set[int]:
    return {number for start, end in ranges for number in range(start, end)}
