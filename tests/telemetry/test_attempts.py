"""Attempts on a real server: why one is tried again is known to the next, and lines name their attempt."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
import structlog
from temporalio import activity, workflow
from temporalio.common import RetryPolicy
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from activities.attempt import beat_step
from activities.errors import coded_errors
from contracts import ErrorCode
from store import StoreUnavailable
from telemetry.attempts import AttemptInterceptor
from tests.telemetry.meters import Recorded
from tests.workflows.farm import binary


@workflow.defn(sandboxed=False)
class OneActivity:
    @workflow.run
    async def run(self) -> int:
        attempts: int = await workflow.execute_activity(
            "render_tile",
            result_type=int,
            activity_id="tile.1",
            start_to_close_timeout=timedelta(seconds=60),
            heartbeat_timeout=timedelta(seconds=1),
            retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=10), maximum_attempts=4),
        )
        return attempts


class Troubled:
    """Three attempts: the first is away from its store, the second falls silent, the third is well."""

    def __init__(self) -> None:
        self.lines: list[dict[str, object]] = []

    @activity.defn(name="render_tile", no_thread_cancel_exception=True)
    def render_tile(self) -> int:
        attempt = activity.info().attempt
        with coded_errors("me"):
            beat_step("starting")
            self.lines.append(structlog.contextvars.get_contextvars())
            if attempt == 1:
                raise StoreUnavailable("away")
            if attempt == 2:
                while not activity.is_cancelled():
                    activity.wait_for_cancelled_sync(0.05)
        return attempt


@asynccontextmanager
async def server(recorded: Recorded) -> AsyncIterator[WorkflowEnvironment]:
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=binary("temporal"),
        runtime=recorded.runtime,
        dev_server_extra_args=["--dynamic-config-value", 'history.timerProcessorMaxTimeShift="50ms"'],
    ) as env:
        yield env


@pytest.mark.system
async def test_the_next_attempt_knows_why(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    recorded, troubled = Recorded(), Troubled()
    async with (
        server(recorded) as env,
        Worker(
            env.client,
            task_queue="q",
            workflows=[OneActivity],
            activities=[troubled.render_tile],
            activity_executor=ThreadPoolExecutor(4),
            interceptors=[AttemptInterceptor(recorded.metrics, "me")],
        ),
    ):
        handle = await env.client.start_workflow(OneActivity.run, id="job", task_queue="q")
        assert await handle.result() == 3
        run_id = (await handle.describe()).run_id
    assert recorded.total("tessera_attempts", activity="render_tile") == 3
    retries = [series["code"] for series in recorded.labels("tessera_retries")]
    assert sorted(map(str, retries)) == [ErrorCode.STORAGE_UNAVAILABLE, ErrorCode.WORKER_LOST]
    failures = recorded.labels("tessera_attempt_failures")
    assert failures == [{"activity": "render_tile", "code": ErrorCode.STORAGE_UNAVAILABLE}]

    names = {"job_id": "job", "worker": "me", "activity": "render_tile"}
    expected = [names | {"attempt_id": f"{run_id}/tile.1/{number}"} for number in range(1, 4)]
    assert troubled.lines == expected
    told = [record.reason for record in caplog.records if record.message == "retry"]  # type: ignore[attr-defined]
    assert told == [ErrorCode.STORAGE_UNAVAILABLE, ErrorCode.WORKER_LOST]
