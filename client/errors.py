"""What ends a command: each class is one exit code of the command line's contract."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

from pydantic import ValidationError
from temporalio.service import RPCError, RPCStatusCode

from contracts import ErrorCode, FrameStatus
from store import StoreDenied, StoreError, StoreFull


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


class Unreachable(ClientError):
    """The farm or the store cannot be reached."""

    exit_code = ExitCode.UNREACHABLE


def exit_code(status: FrameStatus) -> ExitCode:
    """The code with which a command that waited for a frame ends."""
    return {
        FrameStatus.FAILED_TERMINAL: ExitCode.FAILED,
        FrameStatus.DEAD_LETTERED: ExitCode.DEAD_LETTERED,
        FrameStatus.CANCELLED: ExitCode.CANCELLED,
    }.get(status, ExitCode.DONE)


@contextmanager
def client_errors() -> Iterator[None]:
    """The one place where an error of the store, of Temporal or of a model becomes a ClientError."""
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
        kind = BadInput if error.status in REFUSALS else Unreachable
        raise kind(f"Temporal: {error.message}") from error
    except ValidationError as error:
        raise BadInput(plain(error), ErrorCode.SETTINGS_INVALID) from error


REFUSALS = {RPCStatusCode.INVALID_ARGUMENT, RPCStatusCode.NOT_FOUND, RPCStatusCode.FAILED_PRECONDITION}
"""Answers of a Temporal that is well: it is the request that is wrong."""


def plain(error: ValidationError) -> str:
    """The first fault as a field path and a sentence."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    return f"{where}: {message}" if where else message
