"""A step whose worker leaves: the server is told at once, and another worker goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from temporalio import activity, workflow
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from activities.attempt import beat_step
from activities.errors import coded_errors
from contracts import ErrorCode
from tests.workflows.farm import binary

HEARTBEAT_TIMEOUT = timedelta(seconds=30)
"""Longer than this test may take: an attempt that ends by it is one that told nobody."""


@workflow.defn(sandboxed=False)
class OneStep:
    @workflow.run
    async def run(self) -> int:
        attempt: int = await workflow.execute_activity(
            "step",
            result_type=int,
            start_to_close_timeout=timedelta(minutes=2),
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=RetryPolicy(maximum_attempts=3),
        )
        return attempt


def worker(client: Client, began: Callable[[], object]) -> Worker:
    @activity.defn(name="step", no_thread_cancel_exception=True)
    def step() -> int:
        attempt = activity.info().attempt
        with coded_errors(f"worker of attempt {attempt}"):
            while attempt == 1:
                beat_step("working")
                began()
                activity.wait_for_cancelled_sync(0.05)
        return attempt

    return Worker(
        client,
        task_queue="q",
        workflows=[OneStep],
        activities=[step],
        activity_executor=ThreadPoolExecutor(1),
        graceful_shutdown_timeout=timedelta(seconds=20),
    )


@pytest.mark.system
async def test_a_step_whose_worker_leaves_is_handed_over_at_once() -> None:
    loop, running = asyncio.get_running_loop(), asyncio.Event()
    async with await WorkflowEnvironment.start_local(dev_server_existing_path=binary("temporal")) as env:
        async with worker(env.client, lambda: loop.call_soon_threadsafe(running.set)):
            handle = await env.client.start_workflow(OneStep.run, id="job", task_queue="q")
            await running.wait()
        async with worker(env.client, lambda: None):
            assert await handle.result() == 2
        started = [e async for e in handle.fetch_history_events() if is_start(e)]
    failure = started[-1].activity_task_started_event_attributes.last_failure
    assert failure.application_failure_info.type == ErrorCode.WORKER_LOST, failure
    assert "told to leave" in failure.message


def is_start(event: HistoryEvent) -> bool:
    return event.HasField("activity_task_started_event_attributes")
