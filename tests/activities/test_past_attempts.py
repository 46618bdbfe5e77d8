"""Attempts hand on what they know of those before them, and the last one tells of all."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.attempt import PAST_ATTEMPTS, beat, past_attempts
from activities.errors import Refused, coded_errors
from contracts import ErrorCode

BEATS: list[dict[str, Any]] = []


def attempt(number: int, before: dict[str, Any] | None, code: ErrorCode | None) -> list[dict[str, Any]]:
    """Runs one attempt that beats once and fails with the code. Returns its beats; raises as it does."""
    beats: list[dict[str, Any]] = []
    environment = ActivityEnvironment()
    environment.info = dataclasses.replace(
        environment.info,
        attempt=number,
        heartbeat_details=[] if before is None else [before],
        retry_policy=RetryPolicy(initial_interval=timedelta(seconds=1), maximum_attempts=4),
    )
    environment.on_heartbeat = lambda *details: beats.append(dict(details[0]))

    def work() -> None:
        with coded_errors(f"worker {number}"):
            beat(tile="t", samples=10 * number, stored=5 * number)
            if code is not None:
                raise Refused(code, "no")

    BEATS.clear()
    try:
        environment.run(work)
    finally:
        BEATS.extend(beats)
    return beats


def test_the_last_attempts_failure_tells_of_all() -> None:
    said: dict[str, Any] | None = None
    for number in (1, 2, 3):
        with pytest.raises(ApplicationError) as caught:
            attempt(number, said, ErrorCode.STORAGE_FULL)
        assert caught.value.details == ({"attempt": number, "worker": f"worker {number}"},)
        said = BEATS[-1]
        assert said["failed"] == ErrorCode.STORAGE_FULL
    with pytest.raises(ApplicationError) as caught:
        attempt(4, said, ErrorCode.STORAGE_FULL)
    past = caught.value.details[0]["past"]
    assert [(p["attempt"], p["worker"], p["samples"]) for p in past] == [
        (1, "worker 1", 10),
        (2, "worker 2", 20),
        (3, "worker 3", 30),
    ]
    assert all("past" not in p and p["since"] <= p["at"] for p in past)


def test_a_lost_attempt_has_no_reason_of_its_own() -> None:
    (said,) = attempt(1, None, None)
    (after,) = attempt(2, said, None)
    assert [p["worker"] for p in after["past"]] == ["worker 1"] and "failed" not in after["past"][0]


def test_many_attempts_do_not_make_heartbeats_grow() -> None:
    said: dict[str, Any] | None = None
    for number in range(1, 3 * PAST_ATTEMPTS):
        (said,) = attempt(number, said, None)
    assert said is not None and len(said["past"]) == PAST_ATTEMPTS


def test_details_of_another_version_are_no_past() -> None:
    environment = ActivityEnvironment()
    environment.info = dataclasses.replace(environment.info, heartbeat_details=["a text"])
    assert environment.run(past_attempts) == []
