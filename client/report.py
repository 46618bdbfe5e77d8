"""How a watched frame is shown: a live bar on a terminal, plain lines elsewhere. All on stderr."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from contracts import FrameStatus, JobStatus

RATE_SECONDS = 60.0
PLAIN_SECONDS = 5.0
"""Between two plain lines of the same state."""
MESSAGE_LENGTH = 160

HINTS = {
    FrameStatus.PAUSED: "`tessera resume` goes on",
    FrameStatus.DEAD_LETTERED: "`tessera retry` when the cause is mended, or `tessera cancel`",
}

Report = Callable[[JobStatus], None]


@contextmanager
def reporting() -> Iterator[Report]:
    """What to call with every new status, for as long as the block lasts."""
    if not sys.stderr.isatty():
        yield PlainReport()
        return
    with live_report() as report:
        yield report


@contextmanager
def steps() -> Iterator[Callable[[str], None]]:
    """What to call with every step of work in this process: shown on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda step: None
        return
    from rich.console import Console

    with Console(stderr=True).status("") as shown:
        yield shown.update


class Rate:
    """Samples per second of the last minute, and the time that is left at this rate."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float]] = deque()

    def add(self, status: JobStatus, now: float) -> tuple[float, float | None]:
        """(samples a second, seconds left or None where it cannot be told)."""
        done = status.progress * status.samples.target
        if self._seen and done < self._seen[-1][1]:  # lost with a worker, or another run
            self._seen.clear()
        self._seen.append((now, done))
        while now - self._seen[0][0] > RATE_SECONDS:
            self._seen.popleft()
        before, elapsed = self._seen[0][1], now - self._seen[0][0]
        rate = (done - before) / elapsed if elapsed > 0 else 0.0
        return rate, (status.samples.target - done) / rate if rate > 0 else None

    def text(self, status: JobStatus, now: float) -> str:
        rate, left = self.add(status, now)
        if rate <= 0 or status.status.is_final:
            return ""
        return f", {count(rate)} samples/s" + (f", {duration(left)} left" if left is not None else "")


def describe(status: JobStatus) -> str:
    """One line: the state, tiles, attempts, the last failure and what a person may do."""
    tiles, attempts = status.tiles, status.attempts
    parts = [str(status.status)]
    if tiles.total:
        parts.append(f"tiles {tiles.rendered}/{tiles.total}")
    if tiles.dead:
        parts.append(f"{tiles.dead} dead")
    if attempts.lost:
        parts.append(f"{attempts.lost} of {attempts.total} attempts lost")
    if status.error is not None and status.status is not FrameStatus.COMPLETED:
        message = " ".join(status.error.message.split())
        short = message if len(message) <= MESSAGE_LENGTH else message[: MESSAGE_LENGTH - 1] + "…"
        parts.append(f"{status.error.code}: {short}")
    hint = status.note or HINTS.get(status.status)
    return ", ".join(parts) + (f" ({hint})" if hint else "")


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


class Warnings:
    """The frame's warnings, each once."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def new(self, status: JobStatus) -> list[str]:
        fresh = [warning for warning in status.warnings if warning not in self._told]
        self._told.update(fresh)
        return [f"warning: {warning}" for warning in fresh]


class PlainReport:
    """A line when the state changes, and at most one every few seconds when anything else does."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._rate = Rate()
        self._warnings = Warnings()
        self._status: FrameStatus | None = None
        self._last = ""
        self._next = 0.0

    def __call__(self, status: JobStatus) -> None:
        now = self._clock()
        for warning in self._warnings.new(status):
            print(warning, file=sys.stderr)
        rate = self._rate.text(status, now)
        line = f"{100 * status.progress:5.1f} %  {describe(status)}"
        if status.status is self._status and (line == self._last or now < self._next):
            return
        self._status, self._last, self._next = status.status, line, now + PLAIN_SECONDS
        print(line + rate, file=sys.stderr, flush=True)


@contextmanager
def live_report() -> Iterator[Report]:
    """A bar that stays in its place, by rich."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.table import Column

    one_line = Column(no_wrap=True, overflow="ellipsis", ratio=1)
    rate, warnings = Rate(), Warnings()
    with Progress(
        TextColumn("{task.percentage:5.1f} %"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[text]}", markup=False, table_column=one_line),
        console=Console(stderr=True),
        expand=True,
    ) as progress:
        task = progress.add_task("", total=1.0, text="")

        def report(status: JobStatus) -> None:
            for warning in warnings.new(status):
                progress.console.print(warning, markup=False, highlight=False)
            text = describe(status) + rate.text(status, time.monotonic())
            progress.update(task, completed=status.progress, text=text)

        yield report
