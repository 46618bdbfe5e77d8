"""Records the histories that test_replay.py replays: python -m tests.workflows.record_histories [NAME...]

Record again only when the workflow is changed on purpose in a way that running frames do not survive;
until then the recorded ones must replay, as the frames that people have running will have to.
"""

from __future__ import annotations

import asyncio
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowFailureError, WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment

from contracts import (
    ErrorCode,
    FinalizeOutcome,
    FinalizeTask,
    FramePlan,
    FrameRequest,
    FrameStatus,
    SequenceStatus,
    TileOutcome,
    TileResult,
    TileTask,
)
from tests.workflows.farm import RESULT, Farm, binary, is_status, request, wait_for, wait_for_sequence
from tests.workflows.sequences import Rendered, poison, sequence
from workflows import attributes
from workflows.frame import FrameWorkflow
from workflows.sequence import SequenceWorkflow

HISTORIES = Path(__file__).parent / "histories"


async def save(handle: WorkflowHandle[Any, Any], name: str) -> None:
    with suppress(WorkflowFailureError):
        await handle.result()
    first = handle.first_execution_run_id
    history = await handle._client.get_workflow_handle(handle.id, run_id=first).fetch_history()
    text = re.sub(r'File \\"/[^"]*?([^/"]+\.py)', r"File \"\1", history.to_json())  # no paths of this machine
    (HISTORIES / f"{name}.json").write_text(text)
    print(name, len(history.events), "events")


async def troubles(env: WorkflowEnvironment) -> None:
    """A yield, lost films, a pause, a poison tile, a park, a retry."""
    farm = Farm(tiles=4)
    poison = True

    async def render(task: TileTask, kind: str) -> TileResult:
        if task.tiles[0].x == 0 and poison:
            raise ApplicationError("bang", type=ErrorCode.RENDERER_CRASHED)
        if task.tiles[0].x == 16 and farm.attempts["x0016y0000w0016h0016 tiles"] == 1:
            return TileResult(outcome=TileOutcome.YIELDED, finished=0)
        if task.tiles[0].x == 32 and farm.attempts["x0032y0000w0016h0016 tiles"] == 1:
            return await farm.until_stopped(task, kind)
        return await farm.rendered(task, kind)

    async def finalize(task: FinalizeTask) -> FinalizeOutcome:
        if farm.attempts["finalize"] == 1:
            return FinalizeOutcome(missing=(2,))
        return FinalizeOutcome(result=RESULT)

    farm.render, farm.finalize = render, finalize
    async with farm.running(env.client):
        handle = await farm.start(env.client, request())
        await wait_for(handle, lambda status: status.tiles.rendered == 2, "two tiles")
        await handle.signal(FrameWorkflow.pause)
        await wait_for(handle, is_status(FrameStatus.PAUSED), "paused")
        await handle.signal(FrameWorkflow.resume)
        await wait_for(handle, is_status(FrameStatus.DEAD_LETTERED), "parked")
        poison = False
        await handle.signal(FrameWorkflow.retry)
        await save(handle, "troubles")


async def cancelled(env: WorkflowEnvironment) -> None:
    farm = Farm(tiles=3)
    farm.render = farm.until_stopped
    async with farm.running(env.client):
        handle = await farm.start(env.client, request())
        await wait_for(handle, lambda status: status.tiles.running == 3, "tiles run")
        await handle.signal(FrameWorkflow.discard_on_cancel)
        await handle.cancel()
        await save(handle, "cancelled")


async def refused(env: WorkflowEnvironment) -> None:
    farm = Farm()

    async def prepare(asked: FrameRequest) -> FramePlan:
        raise ApplicationError("no such thing", type=ErrorCode.SCENE_INVALID)

    farm.prepare = prepare
    async with farm.running(env.client):
        await save(await farm.start(env.client, request()), "refused")


async def continued(env: WorkflowEnvironment) -> None:
    """Many cheap tiles: the first run of a chain, which ends by continuing as new."""
    farm = Farm(tiles=100)
    farm.seconds_per_sample = 0.001
    async with farm.running(env.client):
        await save(await farm.start(env.client, request()), "continued")


async def sequence_troubles(env: WorkflowEnvironment) -> None:
    """Frames that are published, run already, fail, and park; a pause, an approval, a retry."""
    farm, asked = Farm(tiles=1), sequence("troubles", (1, 8, 1), every=2)
    farm.published_numbers = {5}
    poison(farm, 3)
    seen = Rendered(farm)
    seen.bad = {2: ErrorCode.SCENE_INVALID}
    seen.hold(1)
    async with farm.running(env.client):
        alone = await farm.start_alone(env.client, asked.frame(1))
        await wait_for(alone, lambda status: 1 in seen.numbers, "it runs")
        handle = await farm.start_sequence(env.client, asked)
        await wait_for_sequence(handle, lambda r: r.frames.published == 2 and r.dead_lettered != (), "parked")
        await handle.signal(SequenceWorkflow.pause)
        seen.let_go()
        await alone.result()
        await handle.signal(SequenceWorkflow.resume)
        await wait_for_sequence(handle, lambda r: r.status is SequenceStatus.AWAITING_APPROVAL, "waits")
        await handle.signal(SequenceWorkflow.approve)
        await wait_for_sequence(
            handle, lambda r: r.status is SequenceStatus.DEAD_LETTERED, "all else is done"
        )
        farm.finalize = farm.published
        await handle.signal(SequenceWorkflow.retry)
        await save(handle, "sequence_troubles")


async def sequence_cancelled(env: WorkflowEnvironment) -> None:
    farm, asked = Farm(tiles=1), sequence("cancelled", (1, 3, 1))
    farm.render = farm.until_stopped
    async with farm.running(env.client):
        handle = await farm.start_sequence(env.client, asked)
        await wait_for_sequence(handle, lambda r: r.frames.running == 3, "all run")
        await handle.signal(SequenceWorkflow.discard_on_cancel)
        await handle.cancel()
        await save(handle, "sequence_cancelled")


async def sequence_continued(env: WorkflowEnvironment) -> None:
    """The first run of a chain, which ends by continuing as new."""
    farm = Farm(tiles=1)
    async with farm.running(env.client):
        handle = await farm.start_sequence(env.client, sequence("continued", (1, 12, 1)))
        await save(handle, "sequence_continued")


async def main(names: list[str]) -> None:
    HISTORIES.mkdir(exist_ok=True)
    for name in names:
        # Continue-as-new is exercised by lowering the server's threshold, not by a flag in the code.
        events = 80 if name.endswith("continued") else 4096
        async with await WorkflowEnvironment.start_local(
            dev_server_existing_path=binary("temporal"),
            data_converter=pydantic_data_converter,
            identity="recorder",
            search_attributes=list(attributes.ALL),
            dev_server_extra_args=[
                "--dynamic-config-value",
                f"limit.historyCount.suggestContinueAsNew={events}",
            ],
        ) as env:
            await RECORDS[name](env)


RECORDS = {
    record.__name__: record
    for record in (
        *(troubles, cancelled, refused, continued),
        *(sequence_troubles, sequence_cancelled, sequence_continued),
    )
}

if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:] or list(RECORDS)))
