"""What metrics cost a tile, as a ratio of CPU time to the same tile without them; and what a span costs.

    python -m bench.telemetry        prints a table

The tile is a small one, where overhead weighs most. Spans go to a receiver in this process, which another
thread pays for.
"""

from __future__ import annotations

import logging
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from temporalio.runtime import PrometheusConfig, Runtime, TelemetryConfig

from activities.scenes import SceneCache
from activities.tiles import StoredFilm, render_to
from contracts import Tile, TileTask
from store import LocalStore
from store.measured import MeasuredStore
from telemetry.logs import configure_logs
from telemetry.metrics import UNMEASURED, Metrics
from telemetry.traces import end_traces, span, start_traces
from tests import frames
from tests.system.farm import free_port
from tests.telemetry.receiver import receiver
from tracer.render import warm

TILE = Tile(x=0, y=0, width=40, height=24)
SAMPLES = 512
ROUNDS = 15


def main() -> None:
    warm()
    configure_logs(logging.WARNING)
    runtime = Runtime(
        telemetry=TelemetryConfig(metrics=PrometheusConfig(bind_address=f"127.0.0.1:{free_port()}"))
    )
    metrics = Metrics(runtime.metric_meter)
    with tempfile.TemporaryDirectory(prefix="tessera-bench-") as folder:
        plain = LocalStore(Path(folder) / "store")
        request = frames.submit(plain, SAMPLES)
        scene = SceneCache(plain, 1).get("a" * 64, request, lambda step: None)
        measured = MeasuredStore(plain, metrics.observe_store)
        numbers = iter(range(10**9))

        def tile(interval: float, on: bool) -> float:
            """Seconds of this thread's CPU time for one tile, under a name of its own."""
            task = TileTask(job_id="job", sample_key=f"{next(numbers):064d}", tiles=(TILE,), samples=SAMPLES)
            film = StoredFilm(measured if on else plain, task, TILE, metrics if on else UNMEASURED)
            began = time.thread_time()
            render_to(film, scene, interval, lambda samples: None)
            return time.thread_time() - began

        print(f"{'':34}  off     on      ratio")
        compare("metrics, a checkpoint at the end", tile, 1000.0)
        compare("metrics, a checkpoint a slice", tile, 0.0)
        with receiver() as received:
            os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = received.address
            print(f"{'a span, off and on':34}  {span_microseconds():.1f} us", end=" ")
            start_traces("bench")
            print(f"{span_microseconds():.1f} us")
            end_traces()


def span_microseconds() -> float:
    """CPU time of one span, of which a tile has two for each checkpoint."""
    count = 2000
    began = time.thread_time()
    for number in range(count):
        with span("render wave", tile_id=TILE.tile_id, first_sample=number):
            pass
    return (time.thread_time() - began) / count * 1e6


def compare(name: str, tile: Callable[[float, bool], float], interval: float) -> None:
    """Medians of rounds that take turns, so that a machine that gets slower is slower for both."""
    pairs = [(tile(interval, False), tile(interval, True)) for _ in range(ROUNDS)]
    off, on = (statistics.median(times) for times in zip(*pairs, strict=True))
    print(f"{name:34}  {off:.3f} s {on:.3f} s {on / off:.3f}")


if __name__ == "__main__":
    main()
