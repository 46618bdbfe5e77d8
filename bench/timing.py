"""Measuring two things side by side on a machine that does other things as well."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple


class Timed(NamedTuple):
    """Seconds: cpu is of all threads of this process, wall is the clock's. result: what the call gave."""

    cpu: float
    wall: float
    result: Any = None


class Spread(NamedTuple):
    low: float
    median: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:9.3f}  {self.low:9.3f} .. {self.high:.3f}"


@dataclass(frozen=True)
class Row:
    """One line of the table. at_least or at_most: what is wanted of the median. measured is None for what was
    skipped, and note says why."""

    name: str
    measured: Spread | None
    note: str = ""
    at_least: float | None = None
    at_most: float | None = None

    @property
    def verdict(self) -> str:
        if self.measured is None:
            return "skipped"
        if self.at_least is not None:
            return f">= {self.at_least:g} {'met' if self.measured.median >= self.at_least else 'MISSED'}"
        if self.at_most is not None:
            return f"<= {self.at_most:g} {'met' if self.measured.median <= self.at_most else 'MISSED'}"
        return ""

    def __str__(self) -> str:
        figures = str(self.measured) if self.measured else ""
        return f"{self.name:52}{figures:34}{self.verdict:16}{self.note}".rstrip()

    def document(self) -> dict[str, Any]:
        figures = self.measured._asdict() if self.measured else None
        return {**asdict(self), "measured": figures, "verdict": self.verdict}


def spread(values: Sequence[float]) -> Spread:
    return Spread(min(values), statistics.median(values), max(values))


def timed(call: Callable[[], object]) -> Timed:
    wall, cpu = time.perf_counter(), time.process_time()
    result = call()
    return Timed(time.process_time() - cpu, time.perf_counter() - wall, result)


def interleaved(calls: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, list[Timed]]:
    """Each call once before the clock counts, then all of them in turn: whatever else the machine does then
    slows all alike."""
    for call in calls.values():
        call()
    times: dict[str, list[Timed]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            times[name].append(timed(call)._replace(result=None))
    return times


def ratios(ours: Sequence[Timed], peer: Sequence[Timed]) -> tuple[Spread, Spread]:
    """How many times as fast we are, by CPU time and by the clock, each repeat against its neighbour."""
    pairs = list(zip(ours, peer, strict=True))
    return spread([p.cpu / o.cpu for o, p in pairs]), spread([p.wall / o.wall for o, p in pairs])
