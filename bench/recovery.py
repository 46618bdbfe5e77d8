"""How long a tile waits when its worker dies, and what is lost: SIGKILL and SIGTERM, with the defaults.

    python -m bench.recovery [--repeats N]

Three workers with one slot each, two tiles. The worker of one tile gets the signal; measured is the time
until that tile makes progress on another worker, and the samples (per pixel) that its last heartbeat told of
and that the next attempt did not take up.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

from client.pending import PendingTile
from client.status import tiles_in_flight
from contracts import TileStatus
from settings import connect
from store import layout
from tests.system.farm import ROOT, Farm, running_farm
from workflows import policies

SCENE = ROOT / "scenes" / "cornell.gltf"
OPTIONS = ("--size", "64x32", "--tile", "32", "--spp", "1000000")


class Recovery(NamedTuple):
    seconds: float
    lost: int
    interval: int
    """Samples that a tile renders in a checkpoint interval, by its own rate."""


async def measure(number: signal.Signals, folder: Path) -> Recovery:
    with running_farm(folder, str(folder / "stores"), "control") as farm:
        farm.env.pop("TESSERA_CHECKPOINT_SECONDS")  # the default
        workers = [farm.start_worker("tiles", 1) for _ in range(3)]
        client = await connect(farm.env["TEMPORAL_ADDRESS"])
        job = str(farm.tessera("submit", str(SCENE), *OPTIONS)["job_id"])
        began = time.monotonic()

        async def tiles() -> list[PendingTile]:
            return [tile for tile in await tiles_in_flight(client, job) if tile.worker]

        victim = await until(tiles, lambda tile: tile.samples > 1.5 * newest(farm, tile) > 0)
        rate = victim.samples / (time.monotonic() - began)
        process = next(worker for worker in workers if f":{worker.pid}:" in victim.worker)
        told = time.monotonic()
        process.send_signal(number)

        def goes_on(tile: PendingTile) -> bool:
            elsewhere = tile.tile_id == victim.tile_id and tile.worker != victim.worker
            return elsewhere and tile.status is TileStatus.PROGRESSING

        after = await until(tiles, goes_on)
        seconds = time.monotonic() - told
        lost = max(0, victim.samples - after.resumed)
        return Recovery(seconds, lost, round(rate * 5))


def newest(farm: Farm, tile: PendingTile) -> int:
    """Samples of the tile's newest checkpoint: the signal comes in the middle of the next interval."""
    samples = [layout.film_samples(film.key) or 0 for film in farm.films() if tile.tile_id in film.key]
    return max(samples, default=0)


async def until(
    tiles: Callable[[], Awaitable[list[PendingTile]]], accept: Callable[[PendingTile], bool]
) -> PendingTile:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        for tile in await tiles():
            if accept(tile):
                return tile
        await asyncio.sleep(0.02)
    raise TimeoutError("nothing of the kind within two minutes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    print(f"heartbeat timeout {policies.HEARTBEAT_TIMEOUT.total_seconds():g} s")
    for number in (signal.SIGTERM, signal.SIGKILL):
        found = []
        for _ in range(repeats):
            with tempfile.TemporaryDirectory(prefix="tessera-bench-") as folder:
                found.append(asyncio.run(measure(number, Path(folder))))
        times, lost = [r.seconds for r in found], [r.lost for r in found]
        print(f"{number.name}: on elsewhere after {statistics.median(times):.2f} s, at most {max(times):.2f}")
        print(f"         samples lost {lost}, an interval is about {found[0].interval}")


if __name__ == "__main__":
    main()
