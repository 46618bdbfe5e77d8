"""The tracer beside the renderers people know, in one run: speed, error at equal time, rays, builds, starts.

    python -m bench.tracer                     every row
    python -m bench.tracer --rows speed rays   some of them
    python -m bench.tracer --full              as long as a figure to quote needs
    python -m bench.tracer --json              one document instead of the table

Both sides run in turn with the same number of threads, and ratios compare neighbours in time. Ratios are of
CPU time, in which other work on the machine counts least; those by the clock are reported beside them.
Before a scene is timed both sides must agree on its picture. A peer that is not installed is skipped.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench import embree_peer, mitsuba_peer
from bench.mitsuba_peer import LLVM, SCALAR, MitsubaScene
from bench.scenes import SCENES
from bench.timing import Row, Timed, interleaved, ratios, spread, timed
from tracer.build import PreparedScene, prepare
from tracer.film import RADIANCE, Film, new_film
from tracer.render import render_samples
from tracer.scene import PixelRect, View

ROOT = Path(__file__).resolve().parents[1]
STRIP = 16
"""Rows of a tile: small enough that threads end together."""
AT_LEAST = {
    SCALAR: {"cornell": 3.5, "terrain": 2.0, "": 1.5},
    LLVM: {"cornell": 1.2, "terrain": 1.2, "": 1.0},
}
AGREE = 0.02
"""Relative difference of means, and of coarse pictures, from which on two sides do different work."""
SAMPLER = "multijitter"
"""Mitsuba's best, measured. It rounds numbers of samples up."""
REFERENCE_SEED = 999
"""Not one that is measured: its samples would be part of the reference."""


class Effort(NamedTuple):
    edge: int
    samples: int
    repeats: int
    seeds: int
    reference: int
    """Samples of the pictures that errors are measured against."""
    ray_edge: int


QUICK = Effort(edge=192, samples=16, repeats=3, seeds=4, reference=1024, ray_edge=384)
FULL = Effort(edge=256, samples=64, repeats=7, seeds=16, reference=8192, ray_edge=1024)
DEPTH = 8


def render(scene: PreparedScene, samples: int, threads: int) -> NDArray[np.float64]:
    """(height, width, 3), by tiles as workers do."""
    film = new_film(scene.width, scene.height)

    def strip(top: int) -> None:
        rows = film[top : top + STRIP]
        render_samples(scene, rows, PixelRect(0, top, scene.width, len(rows)), 0, samples)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(strip, range(0, scene.height, STRIP)))
    picture: NDArray[np.float64] = film[..., RADIANCE] / samples
    return picture


def disagreement(ours: NDArray[np.floating], theirs: NDArray[np.floating]) -> tuple[float, float]:
    """Of the means, relative; and the relative root mean square over blocks of an eighth of the picture."""
    block = len(ours) // 8

    def coarse(picture: NDArray[np.floating]) -> Any:
        return picture[: 8 * block, : 8 * block].reshape(8, block, 8, block, 3).mean((1, 3))

    a, b = coarse(ours), coarse(theirs)
    return float(ours.mean() / theirs.mean() - 1.0), float(np.sqrt(((a - b) ** 2).mean()) / b.mean())


def speed(effort: Effort, threads: int, names: list[str]) -> Iterator[Row]:
    """Our speed over Mitsuba's: same samples, same depth, no Russian roulette, the shipped film."""
    if reason := mitsuba_peer.missing():
        yield Row("speed against Mitsuba", None, reason)
        return
    for name in names:
        scene, view = SCENES[name](), View(effort.edge, effort.edge, DEPTH, backfaces_black=True)
        ours = prepare(scene, view)
        render(ours, 1, threads)
        with tempfile.TemporaryDirectory() as folder:
            peers = {
                variant: MitsubaScene(scene, view, variant, Path(folder), threads)
                for variant in (SCALAR, LLVM)
            }
            picture = render(ours, 4 * effort.samples, threads)
            mean, coarse = disagreement(picture, peers[LLVM].render(4 * effort.samples, seed=9))
            agreement = f"means differ {100 * mean:+.2f} %, blocks {100 * coarse:.2f} %"
            if abs(mean) > AGREE or coarse > 2 * AGREE:
                yield Row(f"{name}: speed against Mitsuba", None, f"different work: {agreement}")
                continue
            calls: dict[str, Callable[[], object]] = {"ours": partial(render, ours, effort.samples, threads)}
            for variant, peer in peers.items():
                calls[variant] = partial(peer.render, effort.samples, seed=1)
            times = interleaved(calls, effort.repeats)
            yield from _speed_rows(name, effort, times, agreement)


def _speed_rows(name: str, effort: Effort, times: dict[str, list[Timed]], note: str) -> Iterator[Row]:
    paths = effort.edge * effort.edge * effort.samples / 1e6
    yield Row(f"{name}: ours, M paths a CPU second", spread([paths / t.cpu for t in times["ours"]]), note)
    for variant, bounds in AT_LEAST.items():
        cpu, wall = ratios(times["ours"], times[variant])
        bound = bounds.get(name, bounds[""])
        yield Row(f"{name}: speed / {variant}", cpu, f"by the clock {wall.median:.2f}", at_least=bound)


def relative_error(picture: NDArray[np.floating], reference: NDArray[np.floating]) -> float:
    """relMSE."""
    return float((((picture - reference) ** 2) / (reference**2 + 1e-2)).mean())


def error(effort: Effort, threads: int, names: list[str]) -> Iterator[Row]:
    """Error at equal time: Mitsuba's LLVM variant with its best sampler gets the samples that fit into our
    time, and what is left of a difference in time is made good as if error fell with 1 / time."""
    if reason := mitsuba_peer.missing():
        yield Row("error at equal time", None, reason)
        return
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            yield _error_row(name, effort, threads, Path(folder))


def _error_row(name: str, effort: Effort, threads: int, folder: Path) -> Row:
    scene, edge = SCENES[name](), effort.edge // 2
    view = View(edge, edge, DEPTH, backfaces_black=True, seed=REFERENCE_SEED)
    ours, peer = prepare(scene, view), MitsubaScene(scene, view, LLVM, folder, threads)
    references = (
        render(ours, effort.reference, threads),
        peer.render(effort.reference, REFERENCE_SEED),
    )
    calls = {
        "ours": lambda: render(ours, effort.samples, threads),
        "theirs": lambda: peer.render(effort.samples, 1, SAMPLER),
    }
    times = interleaved(calls, 3)
    samples = max(1, round(effort.samples * ratios(times["theirs"], times["ours"])[0].median))
    peer.render(samples, 0, SAMPLER)  # so that nothing is left to compile
    gains = []
    for seed in range(effort.seeds):
        seeded = prepare(scene, view._replace(seed=seed))
        ours_done = timed(partial(render, seeded, effort.samples, threads))
        theirs_done = timed(partial(peer.render, samples, seed, SAMPLER))
        mine = relative_error(ours_done.result, references[0]) * ours_done.cpu
        gains.append(relative_error(theirs_done.result, references[1]) * theirs_done.cpu / mine)
    note = f"{effort.samples} samples against {samples}"
    return Row(f"{name}: error at equal time / {SAMPLER}", spread(gains), note, at_least=1.5)


def rays(effort: Effort, threads: int, names: list[str]) -> Iterator[Row]:
    """The scene of a million triangles: closest hits, builds and bytes."""
    del threads, names
    scene = prepare(SCENES["terrain"](), View(64, 64, DEPTH))
    arrays, count = scene.arrays, len(scene.arrays.geometry.triangles)
    size = sum(a.nbytes for group in (arrays.bvh, arrays.geometry, arrays.surfaces) for a in group)
    yield Row("bytes a triangle, BVH and shading", spread([size / count]), f"{count} triangles", at_most=75)
    if reason := embree_peer.missing():
        seconds = embree_peer.build_seconds(scene, effort.repeats)
        yield Row(
            "BVH build, CPU s a million triangles", spread([s * 1e6 / count for s in seconds]), at_most=0.8
        )
        yield Row("rays and build against embree", None, reason)
        return
    found = embree_peer.compare(scene, effort.ray_edge, effort.repeats)
    note = f"{100 * found.differing:.3f} % of hits differ"
    for kind, ratio, rate in zip(("primary", "bounce"), found[:2], found.megarays, strict=True):
        yield Row(f"closest hit / embree, {kind}", ratio, f"{rate:.2f} M rays/s; {note}", at_least=1.3)
    millions = [s * 1e6 / count for s in found.build_seconds]
    yield Row("BVH build, CPU s a million triangles", spread(millions), at_most=0.8)
    yield Row("BVH build speed / embree", found.build, at_least=1 / 0.7)


START = """
import worker
from bench.scenes import SCENES
from tracer.build import prepare
from tracer.film import new_film
from tracer.render import render_samples, warm
from tracer.scene import PixelRect, View
warm()
render_samples(prepare(SCENES["cornell"](), View(64, 64)), new_film(64, 64), PixelRect(0, 0, 64, 64), 0, 1)
"""


def start(effort: Effort, threads: int, names: list[str]) -> Iterator[Row]:
    """A new process that imports all that a worker does, until its first sample of a picture is done."""
    del threads, names
    repeats = {"cold": 1, "warm": effort.repeats}
    with tempfile.TemporaryDirectory() as cache:
        for kind, bound in (("cold", 25.0), ("warm", 3.0)):
            cpu, wall = [], []
            for _ in range(repeats[kind]):
                before, began = os.times(), time.perf_counter()
                command = [sys.executable, "-c", START]
                subprocess.run(command, cwd=ROOT, env=os.environ | {"TESSERA_CACHE": cache}, check=True)
                after = os.times()
                wall.append(time.perf_counter() - began)
                used = after.children_user + after.children_system
                cpu.append(used - before.children_user - before.children_system)
            note = f"by the clock {spread(wall).median:.2f}"
            yield Row(f"new worker to first sample, {kind}, CPU s", spread(cpu), note, at_most=bound)


def waves(effort: Effort, threads: int, names: list[str]) -> Iterator[Row]:
    """What it costs to render a tile in waves of eight samples."""
    del threads, names
    samples, tile = 64, PixelRect(0, 0, 64, 64)
    scene = prepare(SCENES["cornell"](), View(64, 64, DEPTH, backfaces_black=True))

    def cut(wave: int) -> Film:
        film = new_film(64, 64)
        for first in range(0, samples, wave):
            render_samples(scene, film, tile, first, wave)
        return film

    times = interleaved({"one": lambda: cut(samples), "waves": lambda: cut(8)}, 3 * effort.repeats)
    costs = [100.0 * (r - 1.0) for r in ratios(times["one"], times["waves"])[0]]
    yield Row("cost of waves of 8 samples, %", spread(costs), at_most=5.0)


ROWS = {"speed": speed, "error": error, "waves": waves, "start": start, "rays": rays}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--scenes", nargs="+", choices=SCENES, default=list(SCENES))
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    for kind in options.rows:
        for row in ROWS[kind](FULL if options.full else QUICK, options.threads, options.scenes):
            rows.append(row)
            # A long run shows how far it is; --json keeps standard output for the document.
            print(row, file=sys.stderr if options.json else sys.stdout, flush=True)
    if options.json:
        document = {"threads": options.threads, "full": options.full, "rows": [r.document() for r in rows]}
        print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
