"""Records the histories that test_replay.py replays: python -m tests.workflows.record_histories

Record again only when the workflow is changed on purpose in a way that running frames do not survive;
until then the recorded ones must replay, as the frames that people have running will have to.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from pathlib import Path

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
    FrameResult,
    FrameStatus,
    TileOutcome,
    TileResult,
    TileTask,
)
from tests.workflows.farm import RESULT, Farm, binary, is_status, request, wait_for
from workflows import attributes
from workflows.frame import FrameWorkflow

HISTORIES = Path(__file__).parent / "histories"


async def save(handle: WorkflowHandle[FrameWorkflow, FrameResult], name: str) -> None:
    with suppress(WorkflowFailureError):
        await handle.result()
    first = handle.first_execution_run_id
    history = await handle._client.get_workflow_handle(handle.id, run_id=first).fetch_history()
    root = str(Path(__file__).parents[2])
    (HISTORIES / f"{name}.json").write_text(re.sub(rf"{root}/\S*?([^/]+\.py)", r"\1", history.to_json()))
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


async def main() -> None:
    HISTORIES.mkdir(exist_ok=True)
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=binary("temporal"),
        data_converter=pydantic_data_converter,
        identity="recorder",
        search_attributes=list(attributes.ALL),
        # Continue-as-new is exercised by lowering the server's threshold, not by a flag in the code.
        dev_server_extra_args=["--dynamic-config-value", "limit.historyCount.suggestContinueAsNew=80"],
    ) as env:
        for record in (troubles, cancelled, refused, continued):
            await record(env)


if __name__ == "__main__":
    asyncio.run(main())
