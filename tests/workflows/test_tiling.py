"""Tilings cover every pixel once, and ranges keep sets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from contracts import FramePlan
from tests.workflows.farm import ENGINE, request
from workflows.tiling import (
    MAX_EDGE,
    MAX_TILES,
    MIN_EDGE,
    choose_tile_size,
    from_ranges,
    tile_at,
    tile_count,
    to_ranges,
)


def plan(width: int, height: int, edge: int) -> FramePlan:
    return FramePlan(
        sample_key="0" * 64,
        engine=ENGINE,
        request=request(),
        scene_hash="0" * 64,
        width=width,
        height=height,
        tile_size=edge,
    )


@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 128))
def test_tiles_cover_every_pixel_once(width: int, height: int, edge: int) -> None:
    frame = plan(width, height, edge)
    covered = [[0] * width for _ in range(height)]
    for tile in (tile_at(frame, number) for number in range(tile_count(frame))):
        assert 1 <= tile.width <= edge and 1 <= tile.height <= edge
        for row in covered[tile.y : tile.y + tile.height]:
            for x in range(tile.x, tile.x + tile.width):
                row[x] += 1
    assert all(count == 1 for row in covered for count in row)


@given(st.sets(st.integers(0, 5000)))
def test_ranges_keep_the_set(numbers: set[int]) -> None:
    assert from_ranges(to_ranges(numbers)) == numbers


@given(st.integers(1, 16384), st.integers(1, 16384), st.floats(0, 1e9))
def test_tile_size_stays_in_its_bounds(width: int, height: int, seconds: float) -> None:
    edge = choose_tile_size(width, height, seconds)
    assert MIN_EDGE <= edge <= MAX_EDGE
    assert edge == MAX_EDGE or tile_count(plan(width, height, edge)) <= MAX_TILES


def test_a_cheap_frame_has_large_tiles_and_a_costly_one_small_ones() -> None:
    assert choose_tile_size(640, 480, 1.0) == MAX_EDGE
    assert choose_tile_size(640, 480, 3600.0) < MAX_EDGE
