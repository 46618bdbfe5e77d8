"""How a watched sequence is shown: a live bar on a terminal, plain lines elsewhere. All on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from client.report import MESSAGE_LENGTH, PLAIN_SECONDS, bar, percent_of
from contracts import SequenceReport, SequenceStatus

SHOWN_FAILURES = 5

HINTS = {
    SequenceStatus.PAUSED: "`tessera resume` goes on",
    SequenceStatus.AWAITING_APPROVAL: "`tessera contact-sheet` shows them; then `tessera approve`",
    SequenceStatus.DEAD_LETTERED: "`tessera retry` when the cause is mended, or `tessera cancel`",
    SequenceStatus.FAILED_TERMINAL: "`tessera retry` tries them again; what is published is kept",
}

Show = Callable[[SequenceReport], None]


def describe(report: SequenceReport) -> str:
    """The share, the state, the frames by their state and, a line each, why frames have no picture."""
    lines = [f"{percent_of(report.progress).strip()}  {_summary(report)}"]
    for number, failure in list(report.failures.items())[:SHOWN_FAILURES]:
        message = " ".join(failure.message.split())[:MESSAGE_LENGTH]
        lines.append(f"frame {number}: {failure.code}: {message}")
    if len(report.failures) > SHOWN_FAILURES:
        lines.append(f"and {len(report.failures) - SHOWN_FAILURES} more")
    return "\n".join(lines)


def _summary(report: SequenceReport) -> str:
    counts = report.frames
    parts = [str(report.status), f"frames {counts.published}/{counts.total}"]
    for name in ("running", "dead_lettered", "failed", "cancelled"):
        if number := getattr(counts, name):
            parts.append(f"{number} {name.replace('_', '-')}")
    hint = report.note or HINTS.get(report.status)
    return ", ".join(parts) + (f" ({hint})" if hint else "")


@contextmanager
def reporting() -> Iterator[Show]:
    """What to call with every new report, for as long as the block lasts."""
    if not sys.stderr.isatty():
        yield PlainReport()
        return
    with bar() as update:
        yield lambda report: update(report.progress, percent_of(report.progress), _summary(report))


class PlainReport:
    """A line when the state changes or a frame fails, and at most one every few seconds for anything else."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = ""
        self._marks: tuple[object, ...] = ()
        self._next = 0.0

    def __call__(self, report: SequenceReport) -> None:
        now, counts = self._clock(), report.frames
        marks = (report.status, counts.failed, counts.dead_lettered)
        line = f"{percent_of(report.progress)}  {_summary(report)}"
        if marks == self._marks and (line == self._last or now < self._next):
            return
        self._marks, self._last, self._next = marks, line, now + PLAIN_SECONDS
        print(line, file=sys.stderr, flush=True)
