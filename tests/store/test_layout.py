"""Names of keys: what they look like, and that nothing else can become one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store import layout

SHA = "ab" * 32
TILE = "x0064y0128w0064h0064"
JOB = "frame-p-scene-default-0007-0123456789abcdef"


def test_the_names() -> None:
    assert layout.bundle(SHA) == f"scenes/{SHA}/bundle.json"
    assert layout.blob(SHA) == f"blobs/ab/{SHA}"
    assert layout.job(JOB) == f"jobs/{JOB}.json"
    assert layout.plan(SHA) == f"plans/{SHA}.json"
    assert layout.film(SHA, TILE, 64) == f"films/{SHA}/{TILE}/00000064.film"
    assert layout.image(JOB, "run-1/tile 2/3", "frame.exr") == f"images/{JOB}/run-1-tile-2-3/frame.exr"
    assert layout.manifest(JOB) == f"manifests/{JOB}.json"
    assert layout.dead_letter(JOB) == f"dead-letters/{JOB}.json"
    assert layout.set_aside("films/a.film", SHA) == f"set-aside/films/a.film/{SHA}"


def test_films_of_a_frame_and_of_a_tile_are_prefixes() -> None:
    film = layout.film(SHA, TILE, 1)
    assert film.startswith(layout.films(SHA, TILE))
    assert film.startswith(layout.films(SHA))
    assert not layout.film(SHA, TILE + "0", 1).startswith(layout.films(SHA, TILE))


@given(st.integers(1, layout.MAX_SAMPLES), st.integers(1, layout.MAX_SAMPLES))
def test_a_films_samples_come_back_and_sort_as_numbers(a: int, b: int) -> None:
    first, second = layout.film(SHA, TILE, a), layout.film(SHA, TILE, b)
    assert layout.film_samples(first) == a
    assert (first < second) == (a < b)


@pytest.mark.parametrize("samples", [0, -1, layout.MAX_SAMPLES + 1])
def test_a_count_that_is_no_film_is_refused(samples: int) -> None:
    with pytest.raises(ValueError, match="samples"):
        layout.film(SHA, TILE, samples)


@pytest.mark.parametrize("key", ["films/a/b/note.txt", "films/a/b/64.film", "set-aside/00000064.film", ""])
def test_other_keys_have_no_samples(key: str) -> None:
    assert layout.film_samples(key) is None


@pytest.mark.parametrize("name", ["", "..", "../other", "a/b", ".store", "a b", "a" * 193])
def test_a_name_cannot_leave_its_place(name: str) -> None:
    for make in (layout.bundle, layout.job, layout.plan, layout.manifest, layout.dead_letter, layout.films):
        with pytest.raises(ValueError, match="part of a key"):
            make(name)
    with pytest.raises(ValueError, match="part of a key"):
        layout.image(JOB, "1", name)


@given(st.text(max_size=150))
def test_any_attempt_makes_a_valid_key_or_is_refused(attempt: str) -> None:
    try:
        key = layout.image(JOB, attempt, "frame.exr")
    except ValueError:
        assert not any(c.isascii() and (c.isalnum() or c in "_=") for c in attempt)
        return
    assert layout.check_key(key).count("/") == 3


def test_the_longest_names_fit_a_file_system() -> None:
    longest = layout.film("a" * 192, "b" * 192, 1)
    layout.check_key(layout.set_aside(longest, SHA))
    assert all(len(part.encode()) < 255 for part in layout.manifest("c" * 192).split("/"))
