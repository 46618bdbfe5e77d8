"""What a sequence workflow knows: plain data, the decision which state it is in, and how it is shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from temporalio import workflow

from workflows import policies
from workflows.tiling import from_ranges, to_ranges

with workflow.unsafe.imports_passed_through():
    from contracts import (
        Failure,
        FrameCounts,
        SequenceReport,
        SequenceRequest,
        SequenceRun,
        SequenceStatus,
    )

MESSAGE_LIMIT = 300
"""Characters of a frame's failure that its sequence keeps: the frame itself has all of it."""
SHOWN_FAILURES = 10


class End(StrEnum):
    """How a sequence has ended."""

    FINISHED = "finished"
    CANCELLED = "cancelled"


@dataclass
class SequenceState:
    """Mutable state of one run; SequenceRun is its frozen form between runs. Sets are of frame numbers."""

    request: SequenceRequest
    key: str
    """The request's idempotency_key."""
    numbers: list[int]
    """All frames, in the order they are rendered in."""
    created_at: datetime
    updated_at: datetime
    published: set[int] = field(default_factory=set)
    own: set[int] = field(default_factory=set)
    """Started by this sequence, and not ended: what it may pause and cancel."""
    running: set[int] = field(default_factory=set)
    """With a workflow of their own that has not ended, be it this sequence's or another's."""
    parked: dict[int, Failure | None] = field(default_factory=dict)
    """Those of the running that wait for an operator."""
    failed: set[int] = field(default_factory=set)
    failures: dict[int, Failure] = field(default_factory=dict)
    cancelled: set[int] = field(default_factory=set)
    approved: bool = False
    paused: bool = False
    discard: bool = False
    """When cancelled, the films of the frames that run go too."""
    end: End | None = None

    @classmethod
    def begin(cls, run: SequenceRun, now: datetime) -> SequenceState:
        return cls(
            request=run.request,
            key=run.request.idempotency_key,
            numbers=run.request.numbers,
            created_at=run.created_at or now,
            updated_at=now,
            published=from_ranges(run.published),
            own=from_ranges(run.own),
            failed=from_ranges(run.failed),
            failures=dict(run.failures),
            cancelled=from_ranges(run.cancelled),
            parked=dict.fromkeys(from_ranges(run.parked)),
            approved=run.approved,
            paused=run.paused,
            discard=run.discard,
        )

    def carry(self) -> SequenceRun:
        """What the next run of a continue-as-new begins with. Frames that run are found again by their id."""
        return SequenceRun(
            request=self.request,
            created_at=self.created_at,
            published=to_ranges(self.published),
            own=to_ranges(self.own),
            failed=to_ranges(self.failed),
            failures=self.failures,
            cancelled=to_ranges(self.cancelled),
            parked=to_ranges(self.parked),
            approved=self.approved,
            paused=self.paused,
            discard=self.discard,
        )

    # --- what becomes of frames -----------------------------------------------------------------

    def begin_frame(self, number: int, own: bool) -> None:
        """own: this run has started it. One that it only found may be its own from an earlier run."""
        self.running.add(number)
        if own:
            self.own.add(number)

    def publish(self, number: int) -> None:
        self._ended(number)
        self.published.add(number)

    def fail(self, number: int, failure: Failure) -> None:
        self._ended(number)
        self.failed.add(number)
        if len(self.failures) < policies.FAILURES_KEPT:
            self.failures[number] = shortened(failure)

    def cancel(self, number: int) -> None:
        self._ended(number)
        self.cancelled.add(number)

    def park(self, number: int, failure: Failure | None) -> None:
        self.parked[number] = shortened(failure) if failure else None

    def unpark(self, number: int) -> None:
        self.parked.pop(number, None)

    def _ended(self, number: int) -> None:
        self.own.discard(number)
        self.running.discard(number)
        self.unpark(number)

    def reopen(self) -> None:
        """Frames that failed or were cancelled get another try."""
        self.failed.clear()
        self.failures.clear()
        self.cancelled.clear()

    # --- what follows from it -------------------------------------------------------------------

    def is_open(self, number: int) -> bool:
        return number not in self.published and number not in self.failed and number not in self.cancelled

    def startable(self) -> list[int]:
        """The frames that may be started now or later without a person's word, in order; running ones too."""
        return [number for number in self._released() if self.is_open(number)]

    def _released(self) -> list[int]:
        every = self.request.every
        return self.numbers if every is None or self.approved else self.numbers[::every]

    @property
    def awaits_approval(self) -> bool:
        """Whether all that may be rendered before the approval is done or parked, and there is more."""
        released = self._released()
        busy = (number for number in released if self.is_open(number) and number not in self.parked)
        return len(released) < len(self.numbers) and next(busy, None) is None

    @property
    def finished(self) -> bool:
        return not any(self.is_open(number) for number in self.numbers)

    @property
    def progress(self) -> float:
        return len(self.published) / len(self.numbers)

    @property
    def status(self) -> SequenceStatus:
        """The one place that decides what state a sequence is in."""
        if self.end is End.CANCELLED:
            return SequenceStatus.CANCELLED
        if self.end is End.FINISHED:
            whole = len(self.published) == len(self.numbers)
            return SequenceStatus.COMPLETED if whole else SequenceStatus.FAILED_TERMINAL
        if self.paused:
            return SequenceStatus.PAUSED
        if self.awaits_approval:
            return SequenceStatus.AWAITING_APPROVAL
        if self.parked and all(not self.is_open(n) or n in self.parked for n in self.numbers):
            return SequenceStatus.DEAD_LETTERED
        return SequenceStatus.RUNNING

    def report(self, job_id: str) -> SequenceReport:
        parked = {number: failure for number, failure in self.parked.items() if failure is not None}
        running = sorted(self.running - self.parked.keys())
        ended = len(self.published) + len(self.failed) + len(self.cancelled)
        return SequenceReport(
            job_id=job_id,
            idempotency_key=self.key,
            status=self.status,
            progress=self.progress,
            frames=FrameCounts(
                total=len(self.numbers),
                published=len(self.published),
                running=len(running),
                waiting=len(self.numbers) - ended - len(running) - len(self.parked),
                dead_lettered=len(self.parked),
                failed=len(self.failed),
                cancelled=len(self.cancelled),
            ),
            published=to_ranges(self.published),
            running=tuple(running),
            dead_lettered=tuple(sorted(self.parked)),
            failed=to_ranges(self.failed),
            cancelled=to_ranges(self.cancelled),
            failures=dict(sorted((self.failures | parked).items())),
            approved=self.approved,
            created_at=self.created_at,
            updated_at=self.updated_at,
        )


def shortened(failure: Failure) -> Failure:
    return failure.model_copy(update={"message": failure.message[:MESSAGE_LIMIT]})


def describe_end(report: SequenceReport) -> str:
    """Which frames have no picture, in one line."""
    lost = sorted(from_ranges(report.failed))
    named = [
        f"frame {number}" + (f" ({why.code}: {why.message})" if (why := report.failures.get(number)) else "")
        for number in lost[:SHOWN_FAILURES]
    ]
    more = [f"and {len(lost) - SHOWN_FAILURES} more"] if len(lost) > SHOWN_FAILURES else []
    cancelled = [f"{report.frames.cancelled} cancelled"] if report.frames.cancelled else []
    counts = f"{report.frames.published} of {report.frames.total} frames are published; "
    return counts + ", ".join([*named, *more, *cancelled])


NEXT_STEP = {
    SequenceStatus.PAUSED: "Signal `resume` to go on.",
    SequenceStatus.AWAITING_APPROVAL: "Look at what is published, then signal `approve`; or cancel.",
    SequenceStatus.DEAD_LETTERED: "Mend the cause, then signal `retry`; or cancel.",
    SequenceStatus.FAILED_TERMINAL: "Mend the cause and submit again; what is published is kept.",
}


def describe(report: SequenceReport) -> str:
    """What the Web UI shows as the sequence's current details, in markdown."""
    counts = report.frames
    lines = [
        f"**{report.status}** · {100 * report.progress:.0f} %",
        "",
        "| frames | |",
        "|---|---|",
        *(f"| {name.replace('_', ' ')} | {count} |" for name, count in counts.model_dump().items()),
    ]
    if report.failures:
        lines += ["", "| frame | code | why |", "|---|---|---|"]
        lines += [
            f"| {number} | `{failure.code}` | {failure.message} |"
            for number, failure in list(report.failures.items())[:SHOWN_FAILURES]
        ]
    if report.status in NEXT_STEP:
        lines += ["", NEXT_STEP[report.status]]
    return "\n".join(lines)
