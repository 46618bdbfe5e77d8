"""A farm whose activities are scripted, for testing what the workflow decides."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar
from uuid import uuid4

from temporalio import activity
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.client import Client, WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from activities.sequences import SequenceActivities
from client.server import SHARING
from contracts import (
    DeadLetter,
    FinalizeOutcome,
    FinalizeTask,
    FramePlan,
    FrameRequest,
    FrameResult,
    FrameRun,
    FrameStatus,
    JobStatus,
    SceneRef,
    SequenceBatch,
    SequenceReport,
    SequenceRequest,
    SequenceRun,
    TileOutcome,
    TileResult,
    TileTask,
)
from store import LocalStore, Store, layout
from workflows import attributes, policies, queues
from workflows.frame import FrameWorkflow
from workflows.launch import frame_launch, sequence_launch
from workflows.sequence import SequenceWorkflow

Status = TypeVar("Status")

ENGINE = "testengine"
RESULT = FrameResult(manifest="m", image="i", sha256="1" * 64, film_sha256="2" * 64)


def binary(name: str) -> str:
    """A program that a test package put beside this interpreter."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    assert found, f"{name} is not installed"
    return found


def request(samples: int = 8) -> FrameRequest:
    return FrameRequest(
        project_id="test",
        scene=SceneRef(version="0" * 64, entry="box.glb"),
        picture_version=1,
        samples_per_pixel=samples,
    )


class Farm:
    """Scripted activities. Assign render, finalize or prepare to change what they do."""

    def __init__(self, tiles: int = 4) -> None:
        self.tiles = tiles
        self.slots = 100
        """Tiles at the same time."""
        self.seconds_per_sample = 1000.0
        """Tiles that are not cheap: each has an activity of its own."""
        self.attempts: Counter[str] = Counter()
        """Attempts by activity name, and for tiles also by (tile_id, queue's kind)."""
        self.newest: dict[str, int] = {}
        self.letters: list[DeadLetter] = []
        self.jobs: list[FrameRequest] = []
        """Recorded by the workflow itself."""
        self.discarded = False
        self.published_numbers: set[int] = set()
        """Frames that the store has a manifest of, where there is no store."""
        self.store: Store | None = None
        """What activities of sequences look into, if it is set; else an empty one."""
        self._empty = TemporaryDirectory()
        self.render: Callable[[TileTask, str], Awaitable[TileResult]] = self.rendered
        self.prepare: Callable[[FrameRequest], Awaitable[FramePlan]] = self.planned
        self.finalize: Callable[[FinalizeTask], Awaitable[FinalizeOutcome]] = self.published

    async def planned(self, asked: FrameRequest) -> FramePlan:
        return FramePlan(
            sample_key=asked.sample_key(ENGINE),
            engine=ENGINE,
            request=asked,
            scene_hash="3" * 64,
            width=16 * self.tiles,
            height=16,
            tile_size=16,
            seconds_per_sample=self.seconds_per_sample,
        )

    async def rendered(self, task: TileTask, kind: str) -> TileResult:
        return TileResult(
            outcome=TileOutcome.RENDERED, finished=len(task.tiles), attempt=activity.info().attempt
        )

    async def published(self, task: FinalizeTask) -> FinalizeOutcome:
        return FinalizeOutcome(result=RESULT)

    async def until_stopped(self, task: TileTask, kind: str) -> TileResult:
        """Beats until it is cancelled, as a tile that renders for long."""
        try:
            while True:
                activity.heartbeat()
                await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            return TileResult(outcome=TileOutcome.STOPPED, finished=0)

    # --- the activities -------------------------------------------------------------------------

    @activity.defn(name="prepare_frame")
    async def _prepare(self, asked: FrameRequest) -> FramePlan:
        self.attempts["prepare"] += 1
        return await self.prepare(asked)

    @activity.defn(name="render_tile")
    async def _render(self, task: TileTask) -> TileResult:
        kind = "isolated" if activity.info().task_queue == queues.isolated(ENGINE) else "tiles"
        self.attempts["tile"] += 1
        for tile in task.tiles:
            self.attempts[f"{tile.tile_id} {kind}"] += 1
        return await self.render(task, kind)

    @activity.defn(name="finalize_frame")
    async def _finalize(self, task: FinalizeTask) -> FinalizeOutcome:
        self.attempts["finalize"] += 1
        return await self.finalize(task)

    @activity.defn(name="newest_samples")
    async def _newest(self, task: TileTask) -> int:
        return self.newest.get(task.tiles[0].tile_id, 0)

    @activity.defn(name="record_dead_letter")
    async def _record(self, letter: DeadLetter) -> None:
        self.letters.append(letter)
        if self.store:
            self.store.put_new(layout.dead_letter(letter.job_id), letter.model_dump_json().encode())

    @activity.defn(name="record_job")
    async def _record_job(self, asked: FrameRequest) -> None:
        self.jobs.append(asked)

    @activity.defn(name="remove_dead_letter")
    async def _remove(self, letter: DeadLetter) -> None:
        self.letters.clear()

    @activity.defn(name="discard_frame")
    async def _discard(self, plan: FramePlan) -> None:
        self.discarded = True

    @activity.defn(name="published_frames")
    async def _published_frames(self, batch: SequenceBatch) -> list[int]:
        self.attempts["lookup"] += 1
        return [number for number in batch.numbers if number in self.published_numbers]

    @asynccontextmanager
    async def running(self, client: Client) -> AsyncIterator[None]:
        def worker(queue: str, activities: list[Callable[..., object]]) -> Worker:
            throttle = policies.HEARTBEAT_THROTTLE  # a cancel arrives with the answer to a heartbeat
            return Worker(
                client,
                task_queue=queue,
                activities=activities,
                max_concurrent_activities=self.slots,
                identity="scripted",
                activity_executor=executor,
                max_heartbeat_throttle_interval=throttle,
                default_heartbeat_throttle_interval=throttle,
            )

        executor = ThreadPoolExecutor(100)  # threads are only made for activities that are not async
        workflows = [FrameWorkflow, SequenceWorkflow]
        store = self.store or LocalStore(Path(self._empty.name))
        sequences = SequenceActivities(store, client, "scripted")
        lookup = sequences.published_frames if self.store else self._published_frames
        service: list[Callable[..., object]] = [
            self._prepare,
            self._newest,
            self._record,
            self._record_job,
            self._remove,
            self._discard,
            lookup,
        ]
        async with (
            Worker(client, task_queue=queues.CONTROL, workflows=workflows, identity="scripted"),
            worker(queues.SERVICE, service),
            worker(queues.WATCH, [sequences.watch_frame]),
            worker(queues.tiles(ENGINE), [self._render]),
            worker(queues.isolated(ENGINE), [self._render]),
            worker(queues.finalize(ENGINE), [self._finalize]),
        ):
            yield

    async def start(self, client: Client, asked: FrameRequest) -> WorkflowHandle[FrameWorkflow, FrameResult]:
        return await client.start_workflow(
            FrameWorkflow.run,
            FrameRun(request=asked, created_at=datetime.now(UTC)),
            id=f"{asked.job_id}-{uuid4().hex[:8]}",
            task_queue=queues.CONTROL,
            search_attributes=attributes.of_request(asked),
        )

    async def start_sequence(
        self, client: Client, asked: SequenceRequest
    ) -> WorkflowHandle[SequenceWorkflow, SequenceReport]:
        """As the client starts it."""
        launch = sequence_launch(asked)
        return await client.start_workflow(
            SequenceWorkflow.run,
            SequenceRun(request=asked, created_at=datetime.now(UTC)),
            id=asked.job_id,
            task_queue=queues.CONTROL,
            memo=launch.memo,
            search_attributes=launch.search_attributes,
        )

    async def start_alone(
        self, client: Client, asked: FrameRequest
    ) -> WorkflowHandle[FrameWorkflow, FrameResult]:
        """A frame under its own name, as the client starts one."""
        launch = frame_launch(asked)
        return await client.start_workflow(
            FrameWorkflow.run,
            FrameRun(request=asked, created_at=datetime.now(UTC)),
            id=asked.job_id,
            task_queue=queues.CONTROL,
            memo=launch.memo,
            search_attributes=launch.search_attributes,
        )


@asynccontextmanager
async def time_skipping() -> AsyncIterator[WorkflowEnvironment]:
    """The time-skipping server: retry delays pass at once while a result is awaited or env.sleep runs."""
    async with await WorkflowEnvironment.start_time_skipping(
        test_server_existing_path=binary("temporal-test-server"), data_converter=pydantic_data_converter
    ) as env:
        await add_search_attributes(env.client)
        yield env


@asynccontextmanager
async def real_server(*options: str) -> AsyncIterator[Client]:
    """The dev server, where the time-skipping one differs from what farms run on. options: its own."""
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=binary("temporal"),
        data_converter=pydantic_data_converter,
        search_attributes=list(attributes.ALL),
        dev_server_extra_args=[*SHARING, *options],
    ) as env:
        yield env.client


async def add_search_attributes(client: Client) -> None:
    await client.operator_service.add_search_attributes(
        AddSearchAttributesRequest(
            namespace=client.namespace,
            search_attributes={key.name: int(key.indexed_value_type) for key in attributes.ALL},  # type: ignore[misc]
        )
    )


async def wait_for(
    handle: WorkflowHandle[FrameWorkflow, FrameResult], accept: Callable[[JobStatus], bool], what: str
) -> JobStatus:
    """Polls the status query until it is accepted; fails after a generous time, saying the last one."""
    return await _wait_for(lambda: handle.query(FrameWorkflow.status), accept, what)


async def wait_for_sequence(
    handle: WorkflowHandle[SequenceWorkflow, SequenceReport],
    accept: Callable[[SequenceReport], bool],
    what: str,
) -> SequenceReport:
    return await _wait_for(lambda: handle.query(SequenceWorkflow.status), accept, what)


async def _wait_for(
    look: Callable[[], Awaitable[Status]], accept: Callable[[Status], bool], what: str
) -> Status:
    status: Status | RPCError | None = None
    for _ in range(1200):
        try:
            status = await look()
        except RPCError as error:  # a worker on a busy machine did not answer in time
            if error.status not in (RPCStatusCode.CANCELLED, RPCStatusCode.DEADLINE_EXCEEDED):
                raise
            status = error
        else:
            if accept(status):
                return status
        await asyncio.sleep(0.05)
    raise AssertionError(f"{what}: still {status}")


async def wait_for_event(handle: WorkflowHandle[FrameWorkflow, FrameResult], attributes: str) -> None:
    """Polls the history until it has an event with these attributes."""
    for _ in range(600):
        history = await handle.fetch_history()
        if any(event.HasField(attributes) for event in history.events):  # type: ignore[arg-type]
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"no event with {attributes}")


def is_status(wanted: FrameStatus) -> Callable[[JobStatus], bool]:
    return lambda status: status.status is wanted
