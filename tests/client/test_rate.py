"""The time that is left is told only from real progress."""

from __future__ import annotations

import pytest

from client.rate import ENOUGH_SECONDS, RATE_SECONDS, Rate, count, duration, rate_text
from contracts import FrameStatus
from tests.client.test_report import job


def test_the_rate_is_of_the_last_minute_and_tells_the_time_left() -> None:
    rate = Rate()
    rate.add(job(progress=0.0), 0.0)
    rate.add(job(progress=0.1), 1.0)
    speed, left = rate.add(job(progress=0.2), 11.0)
    assert speed == pytest.approx(10.0) and left == pytest.approx(80.0)
    rate.add(job(progress=0.2), 12.0 + RATE_SECONDS)
    assert rate.add(job(progress=0.2), 20.0 + RATE_SECONDS) == (0.0, None)


def test_waiting_and_compiling_are_no_progress() -> None:
    rate = Rate()
    for second in range(100):
        assert rate.add(job(FrameStatus.RUNNING), float(second)) == (0.0, None)
    # The first samples: nobody knows since when they were made.
    assert rate.add(job(progress=0.05), 100.0) == (0.0, None)
    speed, left = rate.add(job(progress=0.15), 110.0)
    assert speed == pytest.approx(10.0) and left == pytest.approx(85.0)


def test_a_moment_of_progress_tells_nothing() -> None:
    rate = Rate()
    rate.add(job(), 0.0)
    rate.add(job(progress=0.1), 1.0)
    assert rate.add(job(progress=0.2), 1.0 + 0.9 * ENOUGH_SECONDS) == (0.0, None)
    assert rate.text(job(progress=0.3), 1.0 + 0.95 * ENOUGH_SECONDS) == ""
    assert "left" in rate.text(job(progress=0.4), 1.0 + ENOUGH_SECONDS)


def test_lost_samples_and_pauses_begin_anew() -> None:
    for status, progress in ((FrameStatus.PROGRESSING, 0.3), (FrameStatus.PAUSED, 0.5)):
        rate = Rate()
        rate.add(job(), 0.0)
        rate.add(job(progress=0.5), 1.0)
        assert rate.add(job(status, progress), 20.0) == (0.0, None)
        rate.add(job(progress=0.6), 30.0)
        speed, _ = rate.add(job(progress=0.7), 40.0)
        assert speed == pytest.approx(10.0)


def test_numbers_that_people_read() -> None:
    assert [count(n) for n in (0, 999, 1234, 5.6e6, 7e9)] == ["0", "999", "1.2 k", "5.6 M", "7.0 G"]
    assert [duration(s) for s in (0.4, 59, 61, 3725)] == ["0 s", "59 s", "1 min 01 s", "1 h 02 min"]


def test_one_look_tells_the_time_by_the_running_tiles() -> None:
    status = job(progress=0.5, samples_per_second=1500.0, seconds_left=90.0)
    assert rate_text(status) == ", 1.5 k samples/s, 1 min 30 s left"
    assert Rate().text(status, 0.0) == rate_text(status)
    assert rate_text(job(FrameStatus.PAUSED, samples_per_second=1500.0, seconds_left=90.0)) == ""
    assert rate_text(job()) == ""
