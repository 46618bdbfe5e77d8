"""Every attempt of every activity: counted, and its log lines named, in one place around all of them."""

from __future__ import annotations

import logging
from typing import Any

import structlog
from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from telemetry.metrics import Metrics

LOST = "worker_lost"
"""Why an attempt ended that could not say so itself."""

log = logging.getLogger("tessera.attempt")


def attempt_id(info: activity.Info) -> str:
    """The owner token of an attempt: in leases, in logs and in the names of pictures."""
    return f"{info.workflow_run_id}/{info.activity_id}/{info.attempt}"


class AttemptInterceptor(Interceptor):
    """worker: this worker's identity, in every line of its attempts."""

    def __init__(self, metrics: Metrics, worker: str) -> None:
        self._metrics = metrics
        self._worker = worker

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _Attempt(next, self._metrics, self._worker)


class _Attempt(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, metrics: Metrics, worker: str) -> None:
        super().__init__(next)
        self._metrics = metrics
        self._worker = worker

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        info = activity.info()
        labels = {"activity": info.activity_type}
        names = {"job_id": info.workflow_id, "attempt_id": attempt_id(info), "worker": self._worker}
        # The activity's thread runs in a copy of this context, and its lines carry the names too.
        with structlog.contextvars.bound_contextvars(activity=info.activity_type, **names):
            self._metrics.attempts.add(1, labels)
            if info.attempt > 1:
                reason = reason_of_retry(info)
                self._metrics.retries.add(1, labels | {"code": reason})
                log.warning("retry", extra={"reason": reason, "attempt": info.attempt})
            try:
                return await super().execute_activity(input)
            except ApplicationError as error:
                self._metrics.failures.add(1, labels | {"code": error.type or "internal"})
                raise


def reason_of_retry(info: activity.Info) -> str:
    """The error code with which the attempt before failed. It left that in its last heartbeat; one that was
    killed, stalled or cut off left none."""
    details = info.heartbeat_details[0] if info.heartbeat_details else None
    return str(details.get("failed", LOST)) if isinstance(details, dict) else LOST
