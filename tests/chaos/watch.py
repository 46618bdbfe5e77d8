"""What workers say while they render: the heartbeats that reach the server, seen through its own eyes."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import NamedTuple

from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client
from temporalio.service import RPCError

from client.status import describe
from settings import connect

LOOK_SECONDS = 0.3


class Beat(NamedTuple):
    """One heartbeat of one attempt at one tile. samples: rendered; stored: in the newest checkpoint; resumed:
    found at the attempt's start; all of a pixel."""

    at: datetime
    job_id: str
    tile: str
    activity_id: str
    attempt: int
    worker: str
    samples: int
    stored: int
    resumed: int


class Watch:
    def __init__(self, address: str, jobs: Callable[[], list[str]]) -> None:
        self._address, self._jobs = address, jobs
        self._stopping = threading.Event()
        self._beats: set[Beat] = set()

    @property
    def beats(self) -> list[Beat]:
        """In the order of time."""
        return sorted(self._beats)

    def _run(self) -> None:
        asyncio.run(self._look())

    async def _look(self) -> None:
        client: Client | None = None
        while not self._stopping.is_set():
            try:
                client = client or await connect(self._address)
                for job_id in self._jobs():
                    await self._look_at(client, job_id)
            except (RPCError, RuntimeError):  # the server is away, which is one of the faults
                pass
            await asyncio.sleep(LOOK_SECONDS)

    async def _look_at(self, client: Client, job_id: str) -> None:
        description = await describe(client, job_id)
        pending = description.raw_description.pending_activities if description else []
        self._beats.update(beat for activity in pending for beat in beats_of(job_id, activity))

    @contextmanager
    def watching(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            thread.join(30)


def beats_of(job_id: str, activity: PendingActivityInfo) -> Iterator[Beat]:
    """The newest heartbeat, if it is one of the attempt that runs: details outlive their attempt."""
    at, began = activity.last_heartbeat_time, activity.last_started_time
    waits = activity.state == PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
    if waits or at.ToNanoseconds() <= began.ToNanoseconds():
        return
    for payload in activity.heartbeat_details.payloads:
        details = json.loads(payload.data)
        if "samples" in details:
            yield Beat(
                at=at.ToDatetime(tzinfo=UTC),
                job_id=job_id,
                tile=details["tile"],
                activity_id=activity.activity_id,
                attempt=activity.attempt,
                worker=activity.last_worker_identity,
                samples=details["samples"],
                stored=details["stored"],
                resumed=details["resumed"],
            )
