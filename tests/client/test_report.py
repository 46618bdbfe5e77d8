"""What a person sees of a frame that renders."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from client.report import PLAIN_SECONDS, PlainReport, Rate, count, describe, duration
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


def test_the_rate_is_of_the_last_minute_and_tells_the_time_left() -> None:
    rate = Rate()
    rate.add(job(progress=0.1), 0.0)
    speed, left = rate.add(job(progress=0.2), 10.0)
    assert speed == pytest.approx(10.0) and left == pytest.approx(80.0)
    rate.add(job(progress=0.2), 70.0)
    assert rate.add(job(progress=0.2), 75.0) == (0.0, None)


def test_lost_samples_are_no_negative_rate() -> None:
    rate = Rate()
    rate.add(job(progress=0.5), 0.0)
    assert rate.add(job(progress=0.3), 1.0) == (0.0, None)
    assert rate.add(job(progress=0.4), 2.0)[0] == pytest.approx(100.0)


def test_numbers_that_people_read() -> None:
    assert [count(n) for n in (0, 999, 1234, 5.6e6, 7e9)] == ["0", "999", "1.2 k", "5.6 M", "7.0 G"]
    assert [duration(s) for s in (0.4, 59, 61, 3725)] == ["0 s", "59 s", "1 min 01 s", "1 h 02 min"]


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
    report = PlainReport(lambda: now)
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


def test_a_warning_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    report = PlainReport()
    for status in (FrameStatus.RUNNING, FrameStatus.PROGRESSING):
        report(job(status, warnings=("no camera",)))
    captured = capsys.readouterr()
    assert captured.err.count("warning: no camera") == 1 and captured.out == ""


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
    unanswered = job(FrameStatus.PROGRESSING, 0.4, tiles=TileCounts(), samples=SampleCounts())
    statuses = iter([job(progress=0.5, tiles=tiles, samples=samples), unanswered, job(FrameStatus.COMPLETED)])
    seen: list[JobStatus] = []

    async def look() -> JobStatus:
        return next(statuses)

    await watch(look, seen.append)
    assert (seen[1].tiles, seen[1].samples, seen[1].progress) == (tiles, samples, 0.5)
