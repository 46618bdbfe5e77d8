"""Clocks, and how repeated measurements are shown."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Times(NamedTuple):
    """Seconds. cpu is that of all threads of this process."""

    wall: float
    cpu: float


def clocked(call: Callable[[], object]) -> Times:
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return Times(time.perf_counter() - wall, time.process_time() - cpu)


def spread(values: Sequence[float]) -> str:
    """Median (smallest-largest)."""
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"
