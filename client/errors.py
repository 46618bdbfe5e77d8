"""What ends a command: each class is one exit code of the command line's contract."""

from __future__ import annotations

from enum import IntEnum

from contracts import FrameStatus


class ExitCode(IntEnum):
    DONE = 0
    FAILED = 1
    USAGE = 2
    DEAD_LETTERED = 3
    CANCELLED = 4
    UNREACHABLE = 69


class ClientError(Exception):
    """Ends the command with a message for the person and an exit code."""

    code = ExitCode.FAILED


class BadInput(ClientError):
    """What was asked for makes no sense, or a file is not what it should be."""

    code = ExitCode.USAGE


class Unreachable(ClientError):
    """The farm or the store cannot be reached."""

    code = ExitCode.UNREACHABLE


def exit_code(status: FrameStatus) -> ExitCode:
    """The code with which a command that waited for a frame ends."""
    return {
        FrameStatus.FAILED_TERMINAL: ExitCode.FAILED,
        FrameStatus.DEAD_LETTERED: ExitCode.DEAD_LETTERED,
        FrameStatus.CANCELLED: ExitCode.CANCELLED,
    }.get(status, ExitCode.DONE)
