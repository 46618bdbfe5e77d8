"""Frame ranges and output names."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.frames import is_template, output_path, parse_frames


@given(st.integers(-50, 1000), st.integers(0, 300), st.integers(1, 50))
def test_a_range_is_first_to_last_by_step(first: int, length: int, step: int) -> None:
    assert parse_frames(f"{first}-{first + length}x{step}") == list(range(first, first + length + 1, step))


@given(st.lists(st.integers(0, 500), min_size=1, max_size=20))
def test_duplicates_once_in_the_order_given(numbers: list[int]) -> None:
    assert parse_frames(",".join(map(str, numbers))) == list(dict.fromkeys(numbers))


def test_ranges_and_numbers_mix() -> None:
    assert parse_frames("1-10x3, 4,7-8") == [1, 4, 7, 10, 8]


@pytest.mark.parametrize("text", ["", "a", "5-1", "1-10x0", "1 10", "1--", "1-2-3", "1,,2", "1.5", "x2"])
def test_nonsense_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="for example"):
        parse_frames(text)


def test_a_range_that_nobody_means_is_refused() -> None:
    with pytest.raises(ValueError, match="more than"):
        parse_frames("1-999999999")


@pytest.mark.parametrize(
    ("output", "frame", "path"),
    [
        ("a.####.exr", 7, "a.0007.exr"),
        ("a.####.exr", 12345, "a.12345.exr"),
        ("a.{frame:06d}.png", 7, "a.000007.png"),
        ("a.###.exr", 7, "a.###.exr"),
        ("a {b} %d.exr", 7, "a {b} %d.exr"),
    ],
)
def test_templates(output: str, frame: int, path: str) -> None:
    assert output_path(output, frame) == Path(path)
    assert is_template(output) == (path != output)
