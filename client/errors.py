"""What ends a command: each class is one exit code of the command line's contract.

Every command imports this first, so it imports nothing itself that takes time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError
    from temporalio.service import RPCError

    from contracts import ErrorCode, FrameStatus


class ExitCode(IntEnum):
    DONE = 0
    FAILED = 1
    USAGE = 2
    DEAD_LETTERED = 3
    CANCELLED = 4
    UNREACHABLE = 69
    INTERRUPTED = 130


class ClientError(Exception):
    """Ends the command with a message for the person and an exit code."""

    exit_code = ExitCode.FAILED

    def __init__(self, message: str, code: ErrorCode | None = None) -> None:
        super().__init__(message)
        self.code = code
        """The reason for programs, where the closed set of codes has one."""


class BadInput(ClientError):
    """What was asked for makes no sense, or a file is not what it should be."""

    exit_code = ExitCode.USAGE


class BadField(BadInput):
    """A field of a model does not hold what it may. field: its path, empty for the model as a whole."""

    def __init__(self, field: str, sentence: str) -> None:
        from contracts import ErrorCode

        message = f"{field}: {sentence}" if field else sentence
        super().__init__(message, ErrorCode.SETTINGS_INVALID)
        self.field, self.sentence = field, sentence


class Unreachable(ClientError):
    """The farm or the store cannot be reached."""

    exit_code = ExitCode.UNREACHABLE


def exit_code(status: FrameStatus) -> ExitCode:
    """The code with which a command that waited for a frame ends."""
    from contracts import FrameStatus

    return {
        FrameStatus.FAILED_TERMINAL: ExitCode.FAILED,
        FrameStatus.DEAD_LETTERED: ExitCode.DEAD_LETTERED,
        FrameStatus.CANCELLED: ExitCode.CANCELLED,
    }.get(status, ExitCode.DONE)


@contextmanager
def client_errors() -> Iterator[None]:
    """The one place where an error of the store, of Temporal or of a model becomes a ClientError."""
    from pydantic import ValidationError
    from temporalio.service import RPCError

    from codec import KeyProblem
    from contracts import ErrorCode
    from store import StoreDenied, StoreError, StoreFull

    try:
        yield
    except StoreError as error:
        code = ErrorCode.STORAGE_UNAVAILABLE
        if isinstance(error, StoreDenied):
            code = ErrorCode.STORAGE_DENIED
        elif isinstance(error, StoreFull):
            code = ErrorCode.STORAGE_FULL
        raise Unreachable(str(error), code) from error
    except RPCError as error:
        kind = BadInput if is_refusal(error) else Unreachable
        raise kind(f"Temporal: {error.message}") from error
    except KeyProblem as error:
        raise BadInput(str(error), ErrorCode.SETTINGS_INVALID) from error
    except ValidationError as error:
        raise BadField(*plain(error)) from error


def is_refusal(error: RPCError) -> bool:
    """The answer of a Temporal that is well: it is the request that is wrong."""
    from temporalio.service import RPCStatusCode as Code

    return error.status in (Code.INVALID_ARGUMENT, Code.NOT_FOUND, Code.FAILED_PRECONDITION)


def plain(error: ValidationError) -> tuple[str, str]:
    """The first fault as a field's path and a sentence."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    sentence = first["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    given = first["input"]
    return where, f"{given}: {sentence}" if isinstance(given, str | int | float) else sentence
