"""Our meters in processes that render: their names, what they count, and the buckets of their histograms.

They are Temporal's own: whatever serves the SDK's metrics serves these beside them. Names follow Prometheus:
the unit last, counters end in _total (the exporter adds it). Every label has a closed set of values, but for
`task_queue`, which has one for each engine in use.

Meters of what a workflow decides are in workflows/metrics.py, those of queues in telemetry/backlog.py.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import product

from temporalio.common import MetricCounter, MetricHistogramFloat, MetricMeter

from contracts import ErrorCode

SHORT = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0)
"""Calls of the store: a local write takes a millisecond, and one is given up after about 20 s."""
LONG = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0, 1280.0)
"""Pieces of work: a tile aims at 20 s, a large scene or picture takes minutes."""

TILE = "tessera_tile_duration_seconds"
WAVE = "tessera_wave_duration_seconds"
CHECKPOINT = "tessera_checkpoint_duration_seconds"
FINALIZE = "tessera_finalize_duration_seconds"
SCENE_LOAD = "tessera_scene_load_duration_seconds"
STORE = "tessera_store_operation_duration_seconds"

BUCKETS: dict[str, tuple[float, ...]] = {
    TILE: LONG,
    WAVE: LONG,
    CHECKPOINT: SHORT,
    FINALIZE: LONG,
    SCENE_LOAD: LONG,
    STORE: SHORT,
}
"""Upper bounds in seconds."""


ACTIVITIES = ("prepare_frame", "render_tile", "finalize_frame")
"""Those that matter for alerts: their series are there from the start."""


def counter(meter: MetricMeter, name: str, text: str, **labels: Iterable[str]) -> MetricCounter:
    """A counter with a series at zero for every combination of the labels' values. Prometheus sees no
    increase in a series that begins with its first event, and no alert would tell of it."""
    made = meter.create_counter(name, text)
    for values in product(*labels.values()):
        made.add(0, dict(zip(labels, values, strict=True)))
    return made


class Metrics:
    """The meters of one process. Made once; adding to a counter takes about a microsecond."""

    def __init__(self, meter: MetricMeter = MetricMeter.noop) -> None:
        def count(name: str, text: str, **labels: Iterable[str]) -> MetricCounter:
            return counter(meter, name, text, **labels)

        gauge = meter.create_gauge
        self.attempts = count(
            "tessera_attempts", "Attempts of activities that have begun", activity=ACTIVITIES
        )
        self.retries = count(
            "tessera_retries",
            "Attempts after the first, by why the one before ended; worker_lost: it could not say",
            activity=ACTIVITIES,
            code=ErrorCode,
        )
        self.failures = count(
            "tessera_attempt_failures",
            "Attempts that failed and could say so, by error code",
            activity=ACTIVITIES,
            code=ErrorCode,
        )
        self.checkpoints = count(
            "tessera_checkpoints",
            "Films: written, known (stored by another attempt), resumed, refused (damaged), unstored",
            result=("written", "known", "resumed", "refused", "unstored"),
        )
        self.tiles = count(
            "tessera_tiles_finished", "Tiles that reached their samples", start=("fresh", "resumed")
        )
        self.samples_rendered = count("tessera_samples_rendered", "Pixels times samples that were rendered")
        self.samples_resumed = count("tessera_samples_resumed", "Pixels times samples taken from checkpoints")
        self.samples_lost = count(
            "tessera_samples_lost", "Pixels times samples that an ended attempt had told of and not stored"
        )
        self.duplicates = count(
            "tessera_duplicates_suppressed",
            "Work that was met and had been done already",
            kind=("plan", "checkpoint", "manifest"),
        )
        self.leases = count(
            "tessera_lease_events",
            "What happened to leases; unrenewed: the store failed",
            event=("acquired", "renewed", "unrenewed", "lost", "released"),
        )
        self.scenes = count(
            "tessera_scene_requests",
            "Scenes asked of the cache; shared: another thread was building it",
            result=("hit", "miss", "shared"),
        )
        self.scene_memory = gauge("tessera_scene_cache_bytes", "Memory of the prepared scenes in the cache")
        self.memory = gauge("tessera_process_resident_memory_bytes", "Resident memory of the process")
        self.disk_free = gauge("tessera_disk_free_bytes", "Free room, by place: store (if local), temporary")

        seconds = meter.create_histogram_float
        self.tile_seconds = seconds(TILE, "Attempts of render_tile, by outcome")
        self.wave_seconds = seconds(WAVE, "Rendering between two checkpoints of a tile")
        self.checkpoint_seconds = seconds(CHECKPOINT, "Encoding and storing a film")
        self.finalize_seconds = seconds(FINALIZE, "Attempts of finalize_frame, by outcome")
        self.scene_load_seconds = seconds(SCENE_LOAD, "Loading and building a scene")
        self.store_seconds = seconds(STORE, "Operations of the store, by operation and result")

        self._in_flight = gauge("tessera_tiles_in_flight", "Tile attempts of this worker, by state")
        self._states: Counter[str] = Counter()
        self._lock = threading.Lock()
        for state in ("leased", "progressing"):
            self._in_flight.set(0, {"state": state})

    @contextmanager
    def tile_in_flight(self, state: str) -> Iterator[None]:
        """Counts a tile attempt as `state` for the block: leased (its scene is loaded) or progressing."""
        self._move(state, 1)
        try:
            yield
        finally:
            self._move(state, -1)

    def _move(self, state: str, amount: int) -> None:
        with self._lock:  # set in the order of counting, or an older number would stand
            self._states[state] += amount
            self._in_flight.set(self._states[state], {"state": state})

    def observe_store(self, operation: str, result: str, seconds: float) -> None:
        """What store.measured tells of every call."""
        self.store_seconds.record(seconds, {"operation": operation, "result": result})


UNMEASURED = Metrics()
"""Meters that count nothing."""


@contextmanager
def timed(histogram: MetricHistogramFloat) -> Iterator[None]:
    """Records the seconds that the block takes, however it ends."""
    began = time.monotonic()
    try:
        yield
    finally:
        histogram.record(time.monotonic() - began)
