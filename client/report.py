"""How a watched frame is shown: a live bar on a terminal, plain lines elsewhere. All on stderr."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from client.rate import Rate
from contracts import FrameStatus, JobStatus

PLAIN_SECONDS = 5.0
"""Between two plain lines of the same state."""
MESSAGE_LENGTH = 160

HINTS = {
    FrameStatus.PAUSED: "`tessera resume` goes on",
    FrameStatus.DEAD_LETTERED: "`tessera retry` when the cause is mended, or `tessera cancel`",
}

Report = Callable[[JobStatus], None]


@contextmanager
def reporting(told: Told, title: str = "") -> Iterator[Report]:
    """What to call with every new status, for as long as the block lasts. title: which of several frames."""
    if not sys.stderr.isatty():
        yield PlainReport(told, title)
        return
    with live_report(told, title) as report:
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


def percent(status: JobStatus) -> str:
    return percent_of(status.progress)


def percent_of(progress: float) -> str:
    """Cut off, not rounded: 100.0 % is said only of a frame that has all its samples."""
    return f"{math.floor(1000 * progress + 1e-6) / 10:5.1f} %"


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


class Told:
    """What one command has told its person on stderr: the same again, of the next frame or from a worker,
    is no news."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def new(self, lines: Iterable[str]) -> list[str]:
        fresh = [line for line in dict.fromkeys(lines) if line not in self._told]
        self._told.update(fresh)
        return fresh

    def say(self, line: str) -> None:
        for fresh in self.new([line]):
            print(fresh, file=sys.stderr)


def warnings_of(status: JobStatus) -> list[str]:
    return [f"warning: {warning}" for warning in status.warnings]


class PlainReport:
    """A line when the state changes, and at most one every few seconds when anything else does."""

    def __init__(self, told: Told, title: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._rate = Rate()
        self._told = told
        self._title = title
        self._status: FrameStatus | None = None
        self._last = ""
        self._next = 0.0

    def __call__(self, status: JobStatus) -> None:
        now = self._clock()
        for warning in warnings_of(status):
            self._told.say(warning)
        rate = self._rate.text(status, now)
        line = f"{self._title}{percent(status)}  {describe(status)}"
        if status.status is self._status and (line == self._last or now < self._next):
            return
        self._status, self._last, self._next = status.status, line, now + PLAIN_SECONDS
        print(line + rate, file=sys.stderr, flush=True)


@contextmanager
def live_report(told: Told, title: str) -> Iterator[Report]:
    """A bar that stays in its place, and warnings above it."""
    rate = Rate()
    with bar() as update:

        def report(status: JobStatus) -> None:
            text = describe(status) + rate.text(status, time.monotonic())
            update(status.progress, f"{title}{percent(status)}", text, told.new(warnings_of(status)))

        yield report


@contextmanager
def bar() -> Iterator[Callable[..., None]]:
    """What to call with the progress (0..1), it in words, the text beside the bar, and lines for above."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.table import Column

    one_line = Column(no_wrap=True, overflow="ellipsis", ratio=1)
    with Progress(
        TextColumn("{task.fields[share]}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[text]}", markup=False, table_column=one_line),
        console=Console(stderr=True),
        expand=True,
    ) as progress:
        task = progress.add_task("", total=1.0, text="", share="")

        def update(done: float, share: str, text: str, lines: Iterable[str] = ()) -> None:
            for line in lines:
                progress.console.print(line, markup=False, highlight=False)
            progress.update(task, completed=done, text=text, share=share)

        yield update
