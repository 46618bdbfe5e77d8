"""The pace is that of the last minute."""

from __future__ import annotations

import pytest

from activities.pace import MINUTE, Pace


def test_the_pace_forgets_what_is_older_than_a_minute() -> None:
    now = 0.0
    pace = Pace(lambda: now)
    assert pace.at(1000) == 0.0  # resumed: nobody knows how long these took
    now = 10.0
    assert pace.at(1500) == pytest.approx(50.0)
    now = MINUTE
    assert pace.at(1600) == pytest.approx(10.0)
    now = 10.0 + MINUTE
    assert pace.at(1600) == pytest.approx(100 / MINUTE)
    now = 1000.0
    assert pace.at(1600) == 0.0
