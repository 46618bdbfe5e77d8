"""Celery with Redis, and Dask distributed, each with two processes that render tiles: for bench.overhead."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from bench.peer_tile import frame, render_peer_tile, tiles_of
from tests.system.farm import ROOT, free_port, poll

SLOTS = 2
REDIS = "BENCH_REDIS"
ONE_AT_A_TIME = ("-c", str(SLOTS), "--prefetch-multiplier", "1", "-l", "INFO")

RenderFrame = Callable[[str], float]
"""Renders all tiles of the frame with this sample_key; the wall seconds until the last film is stored."""


def bare_loop(sample_key: str) -> float:
    """Two threads of this process and a list of tiles."""
    began = time.monotonic()
    frame(sample_key)
    with ThreadPoolExecutor(SLOTS) as pool:
        list(pool.map(lambda n: render_peer_tile(sample_key, n), range(tiles_of(sample_key))))
    return time.monotonic() - began


@contextmanager
def dask() -> Iterator[RenderFrame]:
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=SLOTS, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
        ) as cluster,
        Client(cluster) as client,
    ):
        client.run(render_peer_tile, "", -1)

        def render(sample_key: str) -> float:
            began = time.monotonic()
            keys = [sample_key] * tiles_of(sample_key)
            client.gather(client.map(render_peer_tile, keys, range(len(keys)), pure=False))
            return time.monotonic() - began

        yield render


@contextmanager
def celery(folder: Path, environment: dict[str, str]) -> Iterator[RenderFrame | None]:
    """None where there is no redis-server."""
    server = shutil.which("redis-server")
    if server is None:
        yield None
        return
    port = free_port()
    address = f"redis://127.0.0.1:{port}/0"
    redis = subprocess.Popen(
        [server, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)],
        stdout=subprocess.DEVNULL,
    )
    environment |= {REDIS: address, "PYTHONPATH": str(ROOT)}
    with open(folder / "celery.log", "wb") as log:
        worker = subprocess.Popen(
            [*(sys.executable, "-m", "celery", "-A", "bench.celery_app", "worker"), *ONE_AT_A_TIME],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=log,
        )
    try:
        poll(lambda: b"ready." in (folder / "celery.log").read_bytes(), "the Celery worker is ready")
        yield lambda sample_key: asyncio.run(_celery_frame(address, sample_key))
    finally:
        for process in (worker, redis):
            process.terminate()
            process.wait()


async def _celery_frame(address: str, sample_key: str) -> float:
    from celery import Celery, group

    app = Celery(broker=address, backend=address)
    began = time.monotonic()
    count = tiles_of(sample_key)
    tasks = group(app.signature("render", (sample_key, number)) for number in range(count))
    await asyncio.to_thread(tasks.apply_async().get)
    return time.monotonic() - began
