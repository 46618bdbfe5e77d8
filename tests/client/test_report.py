"""What a person sees of a frame that renders."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from client.report import PLAIN_SECONDS, PlainReport, Told, describe, percent
from client.watch import watch
from contracts import (
    AttemptCounts,
    ErrorCode,
    Failure,
    FrameStatus,
    JobStatus,
    SampleCounts,
    TileCounts,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def job(status: FrameStatus = FrameStatus.PROGRESSING, progress: float = 0.0, **more: Any) -> JobStatus:
    values: dict[str, Any] = {
        "job_id": "j",
        "idempotency_key": "0" * 64,
        "frame": 1,
        "created_at": NOW,
        "updated_at": NOW,
        "samples": SampleCounts(target=1000),
        "tiles": TileCounts(total=4),
    }
    return JobStatus(status=status, progress=progress, **(values | more))


def test_one_line_says_all_that_matters() -> None:
    failure = Failure(code=ErrorCode.STORAGE_FULL, message="no room\n" + "x" * 500, at=NOW)
    status = job(
        tiles=TileCounts(total=9, rendered=3, dead=1), attempts=AttemptCounts(total=7, lost=2), error=failure
    )
    line = describe(status)
    assert line.startswith("progressing, tiles 3/9, 1 dead, 2 of 7 attempts lost, storage_full: no room xxx")
    assert "\n" not in line and len(line) < 260
    assert "tessera resume" in describe(job(FrameStatus.PAUSED))
    assert "tessera retry" in describe(job(FrameStatus.DEAD_LETTERED))


def test_plain_lines_come_with_news_and_not_too_often(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    report = PlainReport(Told(), clock=lambda: now)
    for _ in range(100):  # ten polls a second, each with some progress
        report(job(progress=now / 100))
        now += 0.1
    lines = capsys.readouterr().err.splitlines()
    assert 1 < len(lines) <= 1 + 10 / PLAIN_SECONDS
    now += 100
    report(job(progress=0.5))
    report(job(progress=0.5))
    now += 100
    report(job(progress=0.5))  # no news
    report(job(FrameStatus.FINALIZING, progress=0.5))  # at once
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_a_warning_is_told_once_whoever_tells_it(capsys: pytest.CaptureFixture[str]) -> None:
    told = Told()
    told.say("warning: no camera")  # by the client itself
    for frame in (1, 2):
        report = PlainReport(told, f"frame {frame}  ")
        for status in (FrameStatus.RUNNING, FrameStatus.PROGRESSING):
            report(job(status, warnings=("no camera", f"only of frame {frame}")))
    captured = capsys.readouterr()
    warnings = [line for line in captured.err.splitlines() if line.startswith("warning")]
    assert warnings == ["warning: no camera", "warning: only of frame 1", "warning: only of frame 2"]
    assert captured.out == ""


def test_lines_of_several_frames_name_theirs(capsys: pytest.CaptureFixture[str]) -> None:
    PlainReport(Told(), "frame 7  ")(job(progress=0.5))
    assert capsys.readouterr().err.startswith("frame 7   50.0 %  progressing")


def test_a_hundred_percent_is_said_only_of_all_samples() -> None:
    assert [percent(job(progress=p)).strip() for p in (0.29, 0.9999, 1.0)] == ["29.0 %", "99.9 %", "100.0 %"]


@pytest.mark.parametrize(
    "last",
    [
        FrameStatus.COMPLETED,
        FrameStatus.FAILED_TERMINAL,
        FrameStatus.CANCELLED,
        FrameStatus.DEAD_LETTERED,
    ],
)
async def test_watching_ends_when_the_frame_has_ended_or_is_parked(last: FrameStatus) -> None:
    statuses: Iterator[JobStatus] = iter([job(FrameStatus.RUNNING), job(last)])
    seen: list[FrameStatus] = []

    async def look() -> JobStatus:
        return next(statuses)

    ended = await watch(look, lambda status: seen.append(status.status))
    assert ended.status is last and seen == [FrameStatus.RUNNING, last]


async def test_counts_do_not_fall_to_nothing_while_no_worker_answers() -> None:
    tiles, samples = TileCounts(total=4, rendered=2), SampleCounts(target=1000, rendered=500)
    unanswered = job(FrameStatus.PROGRESSING, 0.4, tiles=TileCounts(total=4), samples=SampleCounts(target=9))
    answered = job(progress=0.5, tiles=tiles, samples=samples, engine="e")
    statuses = iter([answered, unanswered, job(FrameStatus.COMPLETED)])
    seen: list[JobStatus] = []

    async def look() -> JobStatus:
        return next(statuses)

    await watch(look, seen.append)
    assert (seen[1].tiles, seen[1].samples, seen[1].progress) == (tiles, samples, 0.5)
