"""How fast a frame renders and how long it will take, told only when there is something to tell it from."""

from __future__ import annotations

from collections import deque

from contracts import FrameStatus, JobStatus

RATE_SECONDS = 60.0
ENOUGH_SECONDS = 5.0
"""Real progress that a rate has to be measured over: less says more about heartbeats than about the farm."""

RENDERING = (FrameStatus.RUNNING, FrameStatus.PROGRESSING)


class Rate:
    """Samples per second of the last minute of real progress, and the time that is left at this rate.

    Waiting, loading and compiling are no progress: the clock starts with the first new samples. These
    themselves are not counted, for nobody knows when they were begun.
    """

    def __init__(self) -> None:
        self._last: float | None = None
        self._seen: deque[tuple[float, float]] = deque()
        """(time, samples) since the first new samples."""

    def add(self, status: JobStatus, now: float) -> tuple[float, float | None]:
        """(samples a second, seconds left); (0, None) where it cannot be told yet."""
        done, last = status.progress * status.samples.target, self._last
        self._last = done
        if status.status not in RENDERING or last is None or done < last:  # done < last: lost with a worker
            self._seen.clear()
            return 0.0, None
        if self._seen or done > last:
            self._seen.append((now, done))
        while self._seen and now - self._seen[0][0] > RATE_SECONDS:
            self._seen.popleft()
        if not self._seen or now - self._seen[0][0] < ENOUGH_SECONDS:
            return 0.0, None
        before, elapsed = self._seen[0][1], now - self._seen[0][0]
        rate = (done - before) / elapsed
        return rate, (status.samples.target - done) / rate if rate > 0 else None

    def text(self, status: JobStatus, now: float) -> str:
        """What it has seen itself; until that is enough, what the running tiles say of themselves."""
        rate, left = self.add(status, now)
        if rate <= 0 or left is None:
            return rate_text(status)
        return _text(rate, left)


def rate_text(status: JobStatus) -> str:
    """For one look alone: the rate that the running tiles tell of themselves."""
    rate, left = status.samples_per_second, status.seconds_left
    return _text(rate, left) if status.status in RENDERING and rate > 0 and left is not None else ""


def _text(rate: float, left: float) -> str:
    return f", {count(rate)} samples/s, {duration(left)} left"


def count(number: float) -> str:
    """1234567 -> 1.2 M"""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return f"{number:.0f}"


def duration(seconds: float) -> str:
    """3725 -> 1 h 02 min"""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"
