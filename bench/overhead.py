"""What durability costs: a frame through Temporal beside the same tiles in a bare loop with two threads.

    python -m bench.overhead [--seconds S] [--rounds N]

In each round, one after the other: Tessera with a local store, Tessera with a real S3 server, the bare loop,
Celery with Redis, Dask distributed; two slots each, all warm. Tessera's time is from the client's call to
the published, verified picture: submit, prepare, tiles with checkpoints, merge, publish. The others have
only the tiles' films at the end. Needs the extra `bench`, and for Celery's row a redis-server.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench import peers_running
from bench.measuring import spread
from bench.peer_tile import FILMS, STORE, render_peer_tile
from client.api import render_frame
from contracts import FramePlan, FrameStatus, JobStatus
from store import layout
from telemetry.logs import configure_logs
from tests.store.s3_server import BUCKET, running_server
from tests.system.farm import ROOT, Farm, running_farm

SCENE = ROOT / "scenes" / "still_life.glb"
BARE = "bare loop, two threads"
SIZE: dict[str, Any] = {"width": 960, "height": 540}


class Frames:
    """One farm with the default settings, and frames rendered by it."""

    def __init__(self, farm: Farm) -> None:
        farm.env.pop("TESSERA_CHECKPOINT_SECONDS")
        farm.start_worker("control")
        farm.start_worker("tiles", peers_running.SLOTS)
        self.farm = farm

    def render(self, samples: int, seed: int) -> tuple[float, JobStatus]:
        """Seconds from the call to the published picture, and what it was."""
        os.environ.update({name: self.farm.env[name] for name in ("TEMPORAL_ADDRESS", "TESSERA_STORE")})
        began = time.monotonic()
        done = asyncio.run(render_frame(SCENE, samples_per_pixel=samples, seed=seed, **SIZE))
        seconds = time.monotonic() - began
        assert done.status is FrameStatus.COMPLETED, done
        return seconds, done

    def plan(self, status: JobStatus) -> FramePlan:
        assert status.input_hash is not None
        return FramePlan.model_validate_json(self.farm.store.get(layout.plan(status.input_hash))[0])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60, help="about how long the bare loop takes")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    configure_logs(logging.WARNING)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tessera-bench-")))
        s3 = stack.enter_context(running_server(folder / "weed"))
        os.environ.update(s3.environment)
        farms = {}
        for name, stores in (("local", f"{folder}/stores"), ("S3", f"s3://{BUCKET}")):
            (folder / name).mkdir()
            farms[name] = Frames(stack.enter_context(running_farm(folder / name, stores)))
        warm_up = {name: frames.render(16, seed=0)[1] for name, frames in farms.items()}
        plan = farms["local"].plan(warm_up["local"])
        samples = round(given.seconds * peers_running.SLOTS / plan.seconds_per_sample)

        os.environ[STORE] = farms["local"].farm.store_url
        os.environ[FILMS] = f"{folder}/celery"
        celery = stack.enter_context(peers_running.celery(folder, dict(os.environ)))
        os.environ[FILMS] = f"{folder}/dask"
        dask = stack.enter_context(peers_running.dask())
        os.environ[FILMS] = f"{folder}/bare"
        render_peer_tile("", -1)
        peers = {BARE: peers_running.bare_loop, "Celery with Redis": celery, "Dask distributed": dask}
        times: dict[str, list[float]] = {}
        for number in range(1, given.rounds + 1):
            for name, frames in farms.items():
                seconds, status = frames.render(samples, seed=number)
                times.setdefault(f"Tessera, {name} store", []).append(seconds)
                sample_key = status.input_hash or ""
            for name, render in peers.items():
                if render is None:
                    continue
                times.setdefault(name, []).append(render(sample_key))
        report(times, samples, status)


def report(times: dict[str, list[float]], samples: int, status: JobStatus) -> None:
    size = f"{SIZE['width']}x{SIZE['height']}"
    print(f"{SCENE.name}, {size}, {samples} samples a pixel, {status.tiles.total} tiles, two slots")
    print(f"{'':28}{'seconds':>24}{'over the bare loop':>24}")
    bare = times[BARE]
    for name, own in times.items():
        ratios = [a / b for a, b in zip(own, bare, strict=True)]
        print(f"{name:28}{spread(own):>24}{spread(ratios):>24}", flush=True)


if __name__ == "__main__":
    main()
