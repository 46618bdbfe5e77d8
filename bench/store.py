"""Puts and gets of films and pictures on both back ends, and what checkpoints cost a tile.

    python -m bench.store            prints a table; starts an S3 server of its own

Rates depend on the disk and the machine; the share of a tile's time is what has to stay small.
"""

from __future__ import annotations

import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from activities.tiles import StoredFilm, render_to
from contracts import Tile, TileTask
from settings import Settings
from store import Store, open_store
from store.blobs import stored_digest
from tests import frames
from tests.store.s3_server import BUCKET, running_server
from tracer.film import encode_film, new_film
from tracer.render import warm

FILM_EDGES = (64, 128)
PICTURE_BYTES = 32 << 20
SECONDS = 3.0
"""How long each operation is repeated."""
INTERVAL = Settings.model_fields["checkpoint_seconds"].default


@contextmanager
def stores() -> Iterator[dict[str, Store]]:
    with (
        tempfile.TemporaryDirectory(prefix="tessera-bench-") as folder,
        running_server(Path(folder) / "weed") as server,
    ):
        os.environ.update(server.environment)
        yield {
            "local": open_store(f"{folder}/local"),
            "s3 (SeaweedFS)": open_store(f"s3://{BUCKET}/bench"),
        }


def rate(call: Callable[[int], object]) -> float:
    """Calls a second, by the median of their times."""
    times = []
    end = time.perf_counter() + SECONDS
    for number in itertools.count():
        began = time.perf_counter()
        call(number)
        times.append(time.perf_counter() - began)
        if time.perf_counter() > end:
            return 1 / statistics.median(times)
    raise AssertionError


def film(edge: int) -> bytes:
    sums = new_film(edge, edge)
    sums[...] = np.random.default_rng(edge).random(sums.shape)
    return encode_film(sums, sample_key="0" * 64, tile_id=f"w{edge}", samples=1)


def transfers(store: Store, folder: Path) -> Iterator[tuple[str, float, float]]:
    """(what, puts a second, gets a second)"""
    for edge in FILM_EDGES:
        data = film(edge)
        puts = rate(lambda n, e=edge, d=data: store.put_new(f"films/{e}/{n:08d}", d))  # type: ignore[misc]
        gets = rate(lambda n, e=edge: store.get(f"films/{e}/{0:08d}"))  # type: ignore[misc]
        yield f"film of {edge}x{edge}, {len(data) / 1e6:.1f} MB", puts, gets
    picture = folder / "picture.exr"
    picture.write_bytes(os.urandom(PICTURE_BYTES))
    puts = rate(lambda n: store.put_new(f"images/{n}", picture))
    gets = rate(lambda n: stored_digest(store, "images/0"))
    yield f"picture, streamed, {PICTURE_BYTES / 1e6:.0f} MB", puts, gets


def checkpoint_share(store: Store) -> tuple[float, float]:
    """(seconds of a checkpoint of the largest tile, its share of a tile's time at the default interval),
    the median of the saves of one tile that goes on for some intervals."""
    from activities.scenes import prepare_scene

    request = frames.submit(store, samples=1 << 20, width=128, height=128)
    scene = prepare_scene(store, request, lambda step: None)
    task = TileTask(
        job_id=request.job_id,
        sample_key=request.sample_key("bench"),
        tiles=(Tile(x=0, y=0, width=128, height=128),),
        samples=request.samples_per_pixel,
    )
    stored = TimedFilm(store, task, task.tiles[0])
    end = time.monotonic() + 4 * INTERVAL + 1

    def report(samples: int) -> None:
        if time.monotonic() > end:
            raise TimeoutError

    began = time.perf_counter()
    with suppress(TimeoutError):  # enough seen
        render_to(stored, scene, INTERVAL, report)
    elapsed = time.perf_counter() - began
    return statistics.median(stored.times), sum(stored.times) / elapsed


class TimedFilm(StoredFilm):
    def __init__(self, store: Store, task: TileTask, tile: Tile) -> None:
        super().__init__(store, task, tile)
        self.times: list[float] = []

    def save(self, film: np.ndarray[tuple[int, ...], np.dtype[np.float64]], samples: int) -> None:
        began = time.perf_counter()
        super().save(film, samples)
        self.times.append(time.perf_counter() - began)


def main() -> None:
    warm()
    with stores() as found, tempfile.TemporaryDirectory() as folder:
        print(f"{'':34}{'puts/s':>10}{'gets/s':>10}")
        for name, store in found.items():
            print(name)
            for what, puts, gets in transfers(store, Path(folder)):
                print(f"  {what:32}{puts:10.1f}{gets:10.1f}")
        print(f"\ncheckpoints of a 128x128 tile every {INTERVAL:g} s")
        for name, store in found.items():
            seconds, share = checkpoint_share(store)
            print(f"  {name:32}{1e3 * seconds:7.1f} ms each, {100 * share:.2f} % of the tile's time")


if __name__ == "__main__":
    main()
