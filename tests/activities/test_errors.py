"""The one table from exceptions to codes: nothing that the parts raise is unmapped."""

from __future__ import annotations

import errno
import inspect
from typing import Any

import pytest
from temporalio.api.failure.v1 import Failure as FailureProto
from temporalio.converter import DefaultFailureConverter, DefaultPayloadConverter
from temporalio.exceptions import ApplicationError, CancelledError
from temporalio.testing import ActivityEnvironment

from activities.attempt import beat
from activities.errors import RULES, Refused, code_of, coded_errors
from contracts import ErrorCode
from store import errors as store_errors
from tracer import errors as tracer_errors

SERVER_LIMIT = 4096
"""Temporal's limit.mutableStateActivityFailureSize.error, in bytes."""


def raised_by(module: Any) -> list[type[Exception]]:
    classes = [kind for _, kind in inspect.getmembers(module, inspect.isclass)]
    return [kind for kind in classes if issubclass(kind, Exception) and kind.__module__ == module.__name__]


# Caught where they are raised, or bases that nobody raises: they must not need a code of their own.
NEVER_LEAVE = {"StoreError", "TracerError", "AlreadyExists", "Conflict"}


@pytest.mark.parametrize("kind", raised_by(store_errors) + raised_by(tracer_errors), ids=lambda k: k.__name__)
def test_every_error_of_the_parts_has_a_rule(kind: type[Exception]) -> None:
    if kind.__name__ not in NEVER_LEAVE:
        assert code_of(kind("x")) is not ErrorCode.INTERNAL


def test_a_rule_is_never_hidden_by_an_earlier_one() -> None:
    for number, (kind, code) in enumerate(RULES):
        for earlier, other in RULES[:number]:
            assert not issubclass(kind, earlier) or code == other, (kind, earlier)


def test_what_no_rule_knows_is_internal_and_named() -> None:
    def fail() -> None:
        with coded_errors("w"):
            raise ZeroDivisionError("by zero")

    with pytest.raises(ApplicationError) as caught:
        ActivityEnvironment().run(fail)
    assert caught.value.type == ErrorCode.INTERNAL
    assert caught.value.message == "ZeroDivisionError: by zero"
    assert not caught.value.non_retryable


@pytest.mark.parametrize("code", list(ErrorCode))
def test_terminal_codes_are_not_retried(code: ErrorCode) -> None:
    def fail() -> None:
        with coded_errors("w"):
            raise Refused(code, "no")

    with pytest.raises(ApplicationError) as caught:
        ActivityEnvironment().run(fail)
    assert (caught.value.type, caught.value.non_retryable) == (code, code.is_terminal)
    assert caught.value.details[0] == {"attempt": 1, "worker": "w"}


def test_a_full_temporary_folder_is_storage_full() -> None:
    assert code_of(OSError(errno.ENOSPC, "no space")) is ErrorCode.STORAGE_FULL
    assert code_of(OSError(errno.EIO, "bad")) is ErrorCode.INTERNAL


def test_cancellation_is_no_failure() -> None:
    def fail() -> None:
        with coded_errors("w"):
            raise CancelledError("stop")

    with pytest.raises(CancelledError):
        ActivityEnvironment().run(fail)


def test_a_heartbeat_that_nobody_takes_is_a_lost_worker() -> None:
    """As in a process that was stopped while it waited for its event loop."""

    def nobody(*details: object) -> None:
        raise TimeoutError

    def work() -> None:
        with coded_errors("w"):
            beat(doing="nothing")

    environment = ActivityEnvironment()
    environment.on_heartbeat = nobody
    with pytest.raises(ApplicationError) as caught:
        environment.run(work)
    assert caught.value.type == ErrorCode.WORKER_LOST


@pytest.mark.parametrize("letter", ["y", "\N{FILM FRAMES}"])
def test_a_failure_fits_into_what_the_server_keeps_of_a_retried_attempt(letter: str) -> None:
    """A larger one loses its code and message: the server puts "Failure exceeds size limit." in its place."""

    def deep(levels: int) -> None:
        try:
            if levels == 0:
                raise OSError("x" * 1000)
            deep(levels - 1)
        except (OSError, store_errors.StoreUnavailable) as error:
            raise store_errors.StoreUnavailable("cannot write: " + letter * 5000) from error

    def fail() -> None:
        with coded_errors("tiles@a-host-with-a-long-name.example:123456:abcd"):
            deep(10)

    with pytest.raises(ApplicationError) as caught:
        ActivityEnvironment().run(fail)
    failure = FailureProto()
    DefaultFailureConverter().to_failure(caught.value, DefaultPayloadConverter(), failure)
    assert failure.ByteSize() < SERVER_LIMIT
    assert failure.message.startswith("cannot write: " + 3 * letter)
