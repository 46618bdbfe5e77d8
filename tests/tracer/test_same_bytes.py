"""A film of n samples has one possible value, whatever the tiles, waves, threads and processors were."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tracer.worlds import facing_quad, film_of, lambert, quad, sphere, world
from tracer import engine
from tracer.build import PreparedScene, prepare
from tracer.film import Film, new_film
from tracer.render import render_samples
from tracer.scene import (
    AlphaMode,
    Environment,
    Instance,
    Light,
    LightKind,
    Material,
    PixelRect,
    Scene,
    Texture,
    TextureUse,
    View,
)

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = 6


def everything() -> Scene:
    """A little of all that kernels do."""
    random = np.random.default_rng(1)
    texels = random.integers(0, 255, (5, 7, 4), dtype=np.uint8)
    floats = random.random((4, 3, 4)).astype(np.float32)
    sky = random.random((6, 9, 3)).astype(np.float32)
    squash = np.array([[0.5, 0.2, 0, 0.4], [0, 0.7, 0.1, 0.2], [0.1, 0, -0.6, 0.3], [0, 0, 0, 1]])
    lamp = quad((-0.3, 2, -0.3), (0.3, 2, -0.3), (0.3, 2, 0.3), (-0.3, 2, 0.3), 3)
    return world(
        [sphere(2, 0, smooth=True), facing_quad(-1.0, 2.0, 1), facing_quad(1.2, 0.5, 2), lamp],
        [
            Material(base_color=(0.9, 0.7, 0.3, 1.0), metallic=0.7, roughness=0.3),
            lambert(1, 1, 1, base_color_texture=TextureUse(0), normal_texture=TextureUse(1)),
            lambert(0.5, 0.5, 0.5, base_color_texture=TextureUse(1), alpha_mode=AlphaMode.BLEND),
            lambert(0, 0, 0, emissive=(5.0, 4.0, 3.0), emissive_texture=TextureUse(0)),
        ],
        textures=(Texture("bytes", texels), Texture("floats", floats)),
        instances=(
            Instance(0, np.eye(4)),
            Instance(0, squash),
            Instance(1, np.eye(4)),
            Instance(2, np.eye(4)),
            Instance(3, np.eye(4)),
        ),
        lights=(
            Light(LightKind.SPOT, (3.0, 3.0, 3.0), (1.0, 2.0, 2.0), (-1 / 3, -2 / 3, -2 / 3), 0.2, 0.9),
            Light(LightKind.DIRECTIONAL, (0.1, 0.2, 0.3), direction=(0.6, -0.8, 0.0)),
        ),
        environment=Environment(sky * sky * sky, 0.5, 0.7),  # not **: it is one of those that differ,
    )


VIEW = View(width=21, height=13, max_depth=5, aperture_radius=0.05, focus_distance=3.0)


@cache
def prepared() -> PreparedScene:
    return prepare(everything(), VIEW)


@cache
def expected() -> bytes:
    return film_of(prepared(), SAMPLES).tobytes()


def film_sha256() -> str:
    """Of a fresh preparation and render; what the test's other processes print."""
    scene = prepare(everything(), VIEW)
    return scene.hash + hashlib.sha256(film_of(scene, SAMPLES).tobytes()).hexdigest()


def tiles_of(width: int, height: int) -> list[PixelRect]:
    scene = prepared()
    return [
        PixelRect(x, y, min(width, scene.width - x), min(height, scene.height - y))
        for y in range(0, scene.height, height)
        for x in range(0, scene.width, width)
    ]


def render_waves(tile: PixelRect, waves: list[int]) -> Film:
    film, done = new_film(tile.width, tile.height), 0
    for wave in [*waves, SAMPLES]:
        count = min(wave, SAMPLES - done)
        render_samples(prepared(), film, tile, done, count)
        done += count
    return film


def merged(films: dict[PixelRect, Film]) -> bytes:
    whole = new_film(prepared().width, prepared().height)
    for tile, film in films.items():
        whole[tile.y : tile.y + tile.height, tile.x : tile.x + tile.width] = film
    return whole.tobytes()


@settings(max_examples=30)
@given(st.integers(1, 21), st.integers(1, 13), st.lists(st.integers(0, 3), max_size=4), st.randoms())
def test_any_tiling_any_waves_any_order(width: int, height: int, waves: list[int], random: object) -> None:
    tiles = tiles_of(width, height)
    random.shuffle(tiles)  # type: ignore[attr-defined]
    assert merged({tile: render_waves(tile, waves) for tile in tiles}) == expected()


def test_any_number_of_threads() -> None:
    tiles = tiles_of(4, 4)
    with ThreadPoolExecutor(8) as pool:
        films = dict(zip(tiles, pool.map(lambda tile: render_waves(tile, [1, 2]), tiles), strict=True))
    assert merged(films) == expected()


def test_fewer_samples_are_a_prefix() -> None:
    film = film_of(prepared(), 2)
    render_samples(prepared(), film, PixelRect(0, 0, VIEW.width or 0, VIEW.height or 0), 2, SAMPLES - 2)
    assert film.tobytes() == expected()


def test_other_seeds_and_frames_are_other_samples() -> None:
    for view in (VIEW._replace(seed=1), VIEW._replace(frame=2)):
        assert film_of(prepare(everything(), view), SAMPLES).tobytes() != expected()


@pytest.mark.skipif(engine.cpu_target() != "x86-64-v3", reason="names x86-64 processors")
@pytest.mark.parametrize(
    "environment",
    [
        {"NUMBA_CPU_NAME": "x86-64-v2"},
        {"NUMBA_CPU_NAME": "host"},
        {"NPY_DISABLE_CPU_FEATURES": "AVX512_SPR AVX512_ICL X86_V4 AVX2 FMA3 X86_V3"},
        {"OPENBLAS_CORETYPE": "Nehalem"},
    ],
    ids=lambda e: " ".join(f"{k}={v}" for k, v in e.items()),
)
def test_any_processor(environment: dict[str, str], tmp_path: Path) -> None:
    """Another process for another target: scene hash and film are the same."""
    if environment.get("NUMBA_CPU_NAME") == "host":
        import llvmlite.binding as llvm

        environment = {"NUMBA_CPU_NAME": llvm.get_host_cpu_name()}
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "NPY_"))}
    code = "from tests.tracer.test_same_bytes import film_sha256; print(film_sha256())"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=ROOT,
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == film_sha256()
