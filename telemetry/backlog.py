"""Gauges of what Temporal knows and no worker does: how much waits, for how long, and the frames by state.

The control worker polls it. Every control worker tells the same, so a query takes the largest, not the sum.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import NoReturn

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.common import MetricMeter, SearchAttributeKey
from temporalio.service import RPCError

from telemetry.metrics import counter

PERIOD = 10.0
"""Seconds between two polls: about as often as Prometheus scrapes, and a dozen cheap calls each."""
RPC_TIMEOUT = timedelta(seconds=5)
MOST_ENGINES = 20
"""So many engines at once would be a mistake, and each takes calls and labels."""

log = logging.getLogger("tessera.backlog")

Queues = Mapping[str, str]
"""Names of task queues by their kind, which is a label of the gauges."""


class BacklogPoller:
    """states: the states that a running frame may have. queues: those that are there always; queues_of:
    those of one engine, which are found by the frames that run on it, whether it has workers or not."""

    def __init__(
        self,
        client: Client,
        meter: MetricMeter,
        *,
        states: Sequence[str],
        queues: Queues,
        queues_of: Callable[[str], Queues],
        status: SearchAttributeKey[str],
        engine: SearchAttributeKey[str],
    ) -> None:
        self._client = client
        self._states = states
        self._queues = queues
        self._queues_of = queues_of
        self._status, self._engine = status.name, engine.name
        self._engines: list[str] = []
        gauge = meter.create_gauge
        self._depth = gauge("tessera_queue_depth", "Tasks that wait for a worker, by queue and kind")
        self._age = meter.create_gauge_float(
            "tessera_queue_oldest_task_age_seconds", "Age of the task that has waited longest; 0 if none"
        )
        self._frames = gauge("tessera_frames", "Frames that have not ended, by state")
        self._polls = counter(meter, "tessera_backlog_polls", "Polls of Temporal", result=("ok", "failed"))

    async def run(self) -> NoReturn:
        """Polls for ever. A Temporal that is away for a while is no reason to end a worker."""
        while True:
            try:
                await self.poll()
                self._polls.add(1, {"result": "ok"})
            except RPCError as error:
                self._polls.add(1, {"result": "failed"})
                log.warning("backlog not polled", extra={"error": error.message})
            await asyncio.sleep(PERIOD)

    async def poll(self) -> None:
        """Sets every gauge once. Raises RPCError."""
        for state in self._states:
            self._frames.set(await self._count(f'{self._status} = "{state}"'), {"state": state})
        await self._find_engines()
        for queues in (self._queues, *map(self._queues_of, self._engines)):
            for kind, name in queues.items():
                await self._look(kind, name)

    async def _count(self, condition: str) -> int:
        query = f"ExecutionStatus = 'Running' AND {condition}"
        return (await self._client.count_workflows(query, rpc_timeout=RPC_TIMEOUT)).count

    async def _find_engines(self) -> None:
        """Asks for a running frame of an engine that is not known yet, until there is none. An engine stays
        known until the process ends, so that the gauges of its queues go to zero rather than stop."""
        while len(self._engines) < MOST_ENGINES:
            known = "".join(f' AND {self._engine} != "{engine}"' for engine in self._engines)
            query = f"ExecutionStatus = 'Running' AND {self._engine} IS NOT NULL{known}"
            frames = self._client.list_workflows(query, page_size=1, limit=1, rpc_timeout=RPC_TIMEOUT)
            found = [frame.typed_search_attributes async for frame in frames]
            if not found:
                return
            self._engines += [pair.value for pair in found[0] if pair.key.name == self._engine]

    async def _look(self, kind: str, name: str) -> None:
        workflows = kind == "control"
        described = await self._client.workflow_service.describe_task_queue(
            DescribeTaskQueueRequest(
                namespace=self._client.namespace,
                task_queue=TaskQueue(name=name),
                task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW
                if workflows
                else TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
                report_stats=True,
            ),
            timeout=RPC_TIMEOUT,
        )
        labels = {"kind": kind, "task_queue": name}
        self._depth.set(described.stats.approximate_backlog_count, labels)
        age = described.stats.approximate_backlog_age.ToTimedelta().total_seconds()
        self._age.set(max(0.0, age), labels)
