"""From what Temporal reports of a failed activity to the Failure that is kept."""

from __future__ import annotations

from datetime import datetime

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, RetryState, TimeoutError, TimeoutType

with workflow.unsafe.imports_passed_through():
    from contracts import ErrorCode, Failure

MESSAGE_LIMIT = 2000
"""Characters of a kept message: it travels in every status and in continue-as-new."""


def to_failure(error: ActivityError, policy: RetryPolicy, tile_id: str | None = None) -> Failure:
    """The cause of a failed activity. Its code is INTERNAL where no rule knows the cause.

    policy: by which it was retried. A lost attempt does not say its number; that all are used up does.
    """
    cause = error.cause
    used_up = error.retry_state == RetryState.MAXIMUM_ATTEMPTS_REACHED
    attempt, worker = policy.maximum_attempts if used_up else 1, error.identity
    if isinstance(cause, TimeoutError):
        code = ErrorCode.WORKER_LOST
        silent = cause.type == TimeoutType.HEARTBEAT
        message = "no heartbeat: the worker was killed, stalled or cut off" if silent else str(cause)
    elif isinstance(cause, ApplicationError):
        known = cause.type in set(ErrorCode)
        code = ErrorCode(cause.type) if known and cause.type else ErrorCode.INTERNAL
        message = cause.message if known else f"{cause.type}: {cause.message}"
        if cause.details and isinstance(cause.details[0], dict):
            attempt = int(cause.details[0].get("attempt", attempt))
            worker = str(cause.details[0].get("worker", worker))
    else:
        code, message = ErrorCode.INTERNAL, f"{type(cause).__name__}: {cause}"
    return Failure(
        code=code,
        message=message[:MESSAGE_LIMIT],
        attempt=attempt,
        worker=worker,
        at=workflow.now(),
        tile_id=tile_id,
    )


def failure_of_frame(error: BaseException | None, now: datetime) -> Failure:
    """Why a frame's workflow has failed, from the error that ended it: see to_workflow_error."""
    if isinstance(error, ApplicationError) and error.details:
        return Failure.model_validate(error.details[0])
    return Failure(code=ErrorCode.INTERNAL, message=f"the frame's workflow ended: {error}", at=now)


def to_workflow_error(failure: Failure) -> ApplicationError:
    """What ends a frame: seen in the Web UI as the workflow's failure, its type is the code."""
    return ApplicationError(
        failure.message, failure.model_dump(mode="json"), type=failure.code, non_retryable=True
    )
