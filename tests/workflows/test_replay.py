"""Recorded histories replay: a change of a workflow must not break the frames and sequences that run."""

from __future__ import annotations

from pathlib import Path

import pytest
from temporalio import workflow
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer
from temporalio.workflow import NondeterminismError

from contracts import FrameResult, FrameRun
from tests.workflows.record_histories import RECORDS
from workflows.frame import FrameWorkflow
from workflows.sequence import SequenceWorkflow

HISTORIES = sorted((Path(__file__).parent / "histories").glob("*.json"))


def load(path: Path) -> WorkflowHistory:
    return WorkflowHistory.from_json("recorded", path.read_text())


def test_there_are_histories() -> None:
    assert {path.stem for path in HISTORIES} >= set(RECORDS)


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
async def test_recorded_history_replays(path: Path) -> None:
    replayer = Replayer(workflows=[FrameWorkflow, SequenceWorkflow], data_converter=pydantic_data_converter)
    await replayer.replay_workflow(load(path))


@workflow.defn(name="FrameWorkflow", sandboxed=False)
class OtherWorkflow(FrameWorkflow):
    @workflow.init
    def __init__(self, run: FrameRun) -> None:
        super().__init__(run)

    @workflow.run
    async def run(self, run: FrameRun) -> FrameResult:
        await workflow.sleep(1)
        return await super().run(run)


async def test_a_changed_workflow_is_noticed() -> None:
    replayer = Replayer(workflows=[OtherWorkflow], data_converter=pydantic_data_converter)
    with pytest.raises(NondeterminismError):
        await replayer.replay_workflow(load(HISTORIES[0].with_stem("troubles")))
