"""render_samples as others call it: it checks what it is given, compiles once, and lets go of the GIL."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tracer.test_same_bytes import VIEW, everything
from tests.tracer.worlds import constant_sky, facing_quad, film_of, world
from tracer.build import PreparedScene, prepare
from tracer.film import CHANNELS, new_film
from tracer.kernels import bvh_build, bvh_collapse, environment, integrator, lights
from tracer.render import render_samples, warm
from tracer.scene import PixelRect, View

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def plain() -> PreparedScene:
    return prepare(world([facing_quad()], environment=constant_sky(1, 1, 1)), View(width=8, height=4))


@pytest.mark.parametrize(
    ("film", "tile", "first", "count"),
    [
        (np.zeros((4, 8, CHANNELS - 1)), PixelRect(0, 0, 8, 4), 0, 1),
        (np.zeros((8, 4, CHANNELS)), PixelRect(0, 0, 8, 4), 0, 1),
        (np.zeros((4, 8, CHANNELS), np.float32), PixelRect(0, 0, 8, 4), 0, 1),
        (np.zeros((4, 8, 2 * CHANNELS))[:, :, ::2], PixelRect(0, 0, 8, 4), 0, 1),
        (new_film(8, 4), PixelRect(1, 0, 8, 4), 0, 1),
        (new_film(8, 4), PixelRect(0, -1, 8, 4), 0, 1),
        (new_film(8, 4), PixelRect(0, 0, 8, 4), -1, 1),
        (new_film(8, 4), PixelRect(0, 0, 8, 4), 0, -1),
        (new_film(8, 4), PixelRect(0, 0, 8, 4), 1 << 32, 1),
    ],
)
def test_what_a_kernel_could_not_survive_is_refused(
    plain: PreparedScene, film: Any, tile: PixelRect, first: int, count: int
) -> None:
    with pytest.raises(AssertionError):
        render_samples(plain, film, tile, first, count)


def test_a_read_only_film_is_refused(plain: PreparedScene) -> None:
    film = new_film(8, 4)
    film.flags.writeable = False
    with pytest.raises(AssertionError):
        render_samples(plain, film, PixelRect(0, 0, 8, 4), 0, 1)


def test_no_samples_change_nothing(plain: PreparedScene) -> None:
    film = film_of(plain, 1)
    before = film.tobytes()
    render_samples(plain, film, PixelRect(0, 0, 8, 4), 1, 0)
    assert film.tobytes() == before


def test_every_scene_runs_the_kernels_that_warm_has_compiled() -> None:
    """A second variant would be compiled in the middle of a tile, for longer than a heartbeat may take."""
    assert warm() >= 0.0
    kernels: list[Any] = [
        integrator.render,
        bvh_build.build_step,
        bvh_collapse.collapse_step,
        environment.fill_cell_rows,
        lights.emitter_powers,
    ]
    before = [kernel.signatures for kernel in kernels]
    film_of(prepare(everything(), VIEW), 1)
    film_of(prepare(world([facing_quad()], environment=None), View(width=2, height=2)), 1)
    film_of(prepare(world([], instances=(), cameras=()), View(width=2, height=2)), 1)
    assert [kernel.signatures for kernel in kernels] == before
    assert [len(kernel.signatures) for kernel in kernels] == [1] * len(kernels)


def test_another_process_loads_what_this_one_has_compiled() -> None:
    warm()
    code = (
        "from tracer.render import warm; warm()\n"
        "from tracer.kernels import integrator\n"
        "stats = integrator.render.stats\n"
        "print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("1 0", "")


def test_other_threads_run_while_a_kernel_does() -> None:
    scene = prepare(everything(), View(width=128, height=128, max_depth=5))
    film_of(scene, 1)
    thread = threading.Thread(target=film_of, args=(scene, 30))
    thread.start()
    turns = 0
    while thread.is_alive():
        turns += 1
    assert turns > 1000
