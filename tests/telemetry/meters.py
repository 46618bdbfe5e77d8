"""A meter whose counts a test can read."""

from __future__ import annotations

from collections import defaultdict

from temporalio.runtime import MetricBuffer, Runtime, TelemetryConfig

from telemetry.metrics import Metrics


class Recorded:
    """A runtime of its own with `metrics` on it. total() sums what was added, and counts of histograms."""

    def __init__(self) -> None:
        self._buffer = MetricBuffer(100_000)
        self.runtime = Runtime(telemetry=TelemetryConfig(metrics=self._buffer, attach_service_name=False))
        self.meter = self.runtime.metric_meter
        self.metrics = Metrics(self.meter)
        self._series: defaultdict[tuple[str, frozenset[tuple[str, object]]], float] = defaultdict(float)

    def total(self, name: str, **labels: str) -> float:
        self._read()
        wanted = set(labels.items())
        return sum(value for (n, found), value in self._series.items() if n == name and wanted <= found)

    def labels(self, name: str) -> list[dict[str, object]]:
        """The labels of every series of this name that is not zero."""
        self._read()
        return [dict(found) for (n, found), value in self._series.items() if n == name and value]

    def _read(self) -> None:
        for update in self._buffer.retrieve_updates():
            key = update.metric.name, frozenset(update.attributes.items())
            kind = update.metric.kind
            if kind == 0:  # a counter's update is what was added
                self._series[key] += update.value
            elif kind == 1:
                self._series[key] = update.value
            else:
                self._series[key] += 1
