"""Watching a frame until it ends: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

from temporalio.service import RPCError

from client.errors import Unreachable
from contracts import FrameStatus, JobStatus

POLL_SECONDS = 0.3
SLOW_POLL_SECONDS = 1.0
QUICK_POLLS = 100
OUTAGE_SECONDS = 180.0
"""How long Temporal may be away before watching gives up. The frame itself does not mind."""
RATE_SECONDS = 60.0
PLAIN_SECONDS = 5.0


class Reporter(Protocol):
    def update(self, status: JobStatus) -> None: ...

    def close(self) -> None: ...


async def watch(look: Callable[[], Awaitable[JobStatus]], reporter: Reporter) -> JobStatus:
    """Looks until the frame has ended or is parked, through restarts of the Temporal server.

    Raises Unreachable when it is away for longer than OUTAGE_SECONDS.
    """
    away_since: float | None = None
    looks = 0
    try:
        while True:
            try:
                status = await look()
                away_since = None
            except RPCError as error:
                away_since = away_since or time.monotonic()
                if time.monotonic() - away_since > OUTAGE_SECONDS:
                    raise Unreachable(f"Temporal is away: {error.message}") from error
            else:
                reporter.update(status)
                if status.status.is_final or status.status is FrameStatus.DEAD_LETTERED:
                    return status
            looks += 1
            await asyncio.sleep(POLL_SECONDS if looks < QUICK_POLLS else SLOW_POLL_SECONDS)
    finally:
        reporter.close()


class Rate:
    """Samples per second of the last minute, and the time that is left at this rate."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float]] = deque()

    def add(self, status: JobStatus, now: float) -> tuple[float, float | None]:
        """(samples a second, seconds left or None where it cannot be told)."""
        done = status.progress * status.samples.target
        self._seen.append((now, done))
        while now - self._seen[0][0] > RATE_SECONDS:
            self._seen.popleft()
        before, elapsed = self._seen[0][1], now - self._seen[0][0]
        rate = max(0.0, done - before) / elapsed if elapsed > 0 else 0.0
        return rate, (status.samples.target - done) / rate if rate > 0 else None


def describe(status: JobStatus) -> str:
    tiles = status.tiles
    parts = [f"{status.status}", f"tiles {tiles.rendered}/{tiles.total}"]
    if tiles.dead:
        parts.append(f"{tiles.dead} dead")
    if status.attempts.lost:
        parts.append(f"{status.attempts.lost} attempts lost")
    if status.error is not None:
        parts.append(f"{status.error.code}: {status.error.message[:120]}")
    if status.note:
        parts.append(status.note)
    return ", ".join(parts)


class PlainReporter:
    """A line on stderr when the state changes, and every few seconds when progress does."""

    def __init__(self) -> None:
        self._rate = Rate()
        self._last: tuple[str, float] = ("", 0.0)
        self._progress = -1.0
        self._warned: set[str] = set()

    def update(self, status: JobStatus) -> None:
        now = time.monotonic()
        rate, left = self._rate.add(status, now)
        for warning in status.warnings:
            if warning not in self._warned:
                self._warned.add(warning)
                print(f"warning: {warning}", file=sys.stderr)
        text, (last_text, last_time) = describe(status), self._last
        changed = text.split(",")[0] != last_text.split(",")[0]
        changed |= status.note is not None and status.note not in last_text
        moved = status.progress != self._progress and now - last_time > PLAIN_SECONDS
        if not changed and not moved:
            return
        self._last, self._progress = (text, now), status.progress
        line = f"{100 * status.progress:5.1f} %  {text}"
        if rate > 0 and not status.status.is_final:
            line += f", {rate:,.0f} samples/s" + (f", {left:.0f} s left" if left is not None else "")
        print(line, file=sys.stderr, flush=True)

    def close(self) -> None:
        pass


class LiveReporter:
    """A bar that stays in its place, by rich."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._rate = Rate()
        self._warned: set[str] = set()
        self._progress = Progress(
            TextColumn("[bold]{task.percentage:5.1f} %"),
            BarColumn(bar_width=32),
            TextColumn("{task.fields[text]}"),
            console=Console(stderr=True),
        )
        self._task = self._progress.add_task("", total=1.0, text="")
        self._progress.start()

    def update(self, status: JobStatus) -> None:
        rate, left = self._rate.add(status, time.monotonic())
        for warning in status.warnings:
            if warning not in self._warned:
                self._warned.add(warning)
                self._progress.console.print(f"warning: {warning}", markup=False)
        text = describe(status)
        if rate > 0 and not status.status.is_final:
            text += f", {rate:,.0f} samples/s" + (f", {left:.0f} s left" if left is not None else "")
        self._progress.update(self._task, completed=status.progress, text=text)

    def close(self) -> None:
        self._progress.stop()


def make_reporter() -> Reporter:
    return LiveReporter() if sys.stderr.isatty() else PlainReporter()
