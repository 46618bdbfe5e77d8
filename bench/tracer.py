"""The tracer beside its peers: `make bench`, or `python -m bench.tracer --help`.

Both sides render the same scene with the same samples, depth and threads, in turns in one process, so that
whatever else the machine does slows both. A ratio is the peer's time over ours, pair by pair: median (and
smallest to largest). CPU time counts all threads and is the one to trust on a shared machine. A scene is
measured only after both pictures agree within their noise.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench import embree_peer, equal_time, own_costs
from bench.measuring import clocked, spread
from bench.mitsuba_peer import MitsubaScene, set_threads
from bench.ours import render_film
from bench.scenes import SCENES, terrain
from tracer.build import prepare
from tracer.film import RADIANCE, SQUARES, Film
from tracer.render import warm
from tracer.scene import Scene, View

VARIANTS = ("scalar_rgb", "llvm_ad_rgb")
PARTS = ("speed", "rays", "own", "error")
BLOCKS = 4
"""The pictures are compared in BLOCKS x BLOCKS parts, so that a mirrored one is found out."""
AGREEMENT = 5.0
"""Standard deviations by which a part may differ; of 48 values one in 30,000 runs differs by more."""

ROUNDING = 1e-4


class Options(NamedTuple):
    size: int
    spp: int
    depth: int
    threads: int
    repeats: int


def _blocks(picture: NDArray[np.float64]) -> NDArray[np.float64]:
    edge = picture.shape[0] // BLOCKS
    cut = picture[: edge * BLOCKS, : edge * BLOCKS].reshape(BLOCKS, edge, BLOCKS, edge, -1)
    return np.asarray(cut.mean(axis=(1, 3)))


def disagreement(film: Film, spp: int, theirs: NDArray[np.float32]) -> tuple[float, float]:
    """(relative difference of the means, the largest difference of a part in standard deviations).

    The deviation is ours, for both sides: independent samples of the same integrand spread alike.
    """
    mean, square = film[..., RADIANCE] / spp, film[..., SQUARES] / spp
    edge = film.shape[0] // BLOCKS
    variance = _blocks(np.maximum(square - mean * mean, 0.0)) / (spp * edge * edge)
    ours, other = _blocks(mean), _blocks(theirs.astype(np.float64))
    # A part without noise, such as plain sky, still differs by what float32 rounds.
    sigmas = np.abs(ours - other) / np.sqrt(2.0 * variance + (ROUNDING * ours) ** 2)
    return float(other.mean() / ours.mean() - 1.0), float(sigmas.max())


def compare(name: str, scene: Scene, options: Options, folder: Path) -> Iterator[str]:
    view = View(width=options.size, height=options.size, max_depth=options.depth)
    prepared = prepare(scene, view)
    film = render_film(prepared, options.spp, options.threads)
    for variant in VARIANTS:
        try:
            peer = MitsubaScene(scene, view, variant, folder=folder)
        except ImportError as error:
            yield f"{name:22} {variant:12} skipped: {error}"
            continue
        set_threads(options.threads)
        difference, sigmas = disagreement(film, options.spp, peer.render(options.spp, 0))
        agreement = f"{100 * difference:+.2f} %, {sigmas:.1f} sigma"
        if sigmas > AGREEMENT:
            yield f"{name:22} {variant:12} not measured, the pictures differ: {agreement}"
            continue
        pairs = []
        for seed in range(1, options.repeats + 1):
            ours = clocked(lambda: render_film(prepared, options.spp, options.threads))
            theirs = clocked(lambda s=seed, p=peer: p.render(options.spp, s))  # type: ignore[misc]
            pairs.append((ours, theirs))
        cpu = spread([theirs.cpu / ours.cpu for ours, theirs in pairs])
        wall = spread([theirs.wall / ours.wall for ours, theirs in pairs])
        samples = options.size**2 * options.spp
        rate = samples / statistics.median(ours.cpu for ours, _ in pairs) / 1e6
        yield f"{name:22} {variant:12} {cpu:20} {wall:20} {rate:8.2f}   {agreement}"


def speed(names: list[str], options: Options) -> None:
    print(f"Speed: {options}")
    print(f"{'scene':22} {'Mitsuba':12} {'CPU ratio':20} {'wall ratio':20} {'M/CPU s':>8}   means differ by")
    with tempfile.TemporaryDirectory(prefix="tessera-bench-") as folder:
        for name in names:
            for row in compare(name, SCENES[name](), options, Path(folder)):
                print(row, flush=True)


def rays(options: Options) -> None:
    print("\nOne thread, 1 M triangles, CPU time; ratio of embreex's over ours")
    for row in embree_peer.rows(prepare(terrain(), View(width=64, height=64)), options.repeats):
        print(row, flush=True)


def own(options: Options) -> None:
    print("\nOur own costs")
    print(own_costs.memory(prepare(terrain(), View(width=64, height=64))), flush=True)
    cornell = prepare(SCENES["Cornell box"](), View(width=256, height=256))
    print(own_costs.waves(cornell, options.repeats), flush=True)
    for row in own_costs.start():
        print(row, flush=True)


def error(names: list[str], options: Options, seeds: int) -> None:
    print("\nError at equal time: relMSE of Mitsuba llvm_ad_rgb multijitter over ours, medians")
    with tempfile.TemporaryDirectory(prefix="tessera-bench-") as folder:
        for name in names:
            scene = SCENES[name]()
            row = equal_time.compare(
                name,
                scene,
                depth=options.depth,
                threads=options.threads,
                seeds=seeds,
                folder=Path(folder),
            )
            print(row, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="The tracer beside its peers.")
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--spp", type=int, default=64)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=16, help="pictures for the error at equal time")
    parser.add_argument("--scenes", nargs="*", choices=list(SCENES), default=list(SCENES))
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS))
    given = parser.parse_args()
    options = Options(given.size, given.spp, given.depth, given.threads, given.repeats)
    warm()
    if "speed" in given.parts:
        speed(given.scenes, options)
    if "rays" in given.parts:
        rays(options)
    if "own" in given.parts:
        own(options)
    if "error" in given.parts:
        error(given.scenes, options, given.seeds)


if __name__ == "__main__":
    main()
