"""Projects share a saturated farm by their weights, however many tiles each has waiting."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from contracts import FrameRequest, TileResult, TileTask
from tests.workflows.farm import Farm, real_server, request
from workflows import policies

SLOTS = 2
FIRST, COUNTED = 60, 240
"""Tiles that start before both projects have a full window waiting, and those counted after that."""


def of_project(name: str, weight: float = 1.0, priority: int = 50) -> FrameRequest:
    return request().model_copy(update={"project_id": name, "weight": weight, "priority": priority})


async def shares(*requests: FrameRequest, frames: int = 1) -> Counter[str]:
    """How many tiles each project got. The first project has so many frames, each other one has one."""
    farm, order, enough = Farm(tiles=FIRST + COUNTED), list[str](), asyncio.Event()
    farm.slots = SLOTS

    async def render(task: TileTask, kind: str) -> TileResult:
        order.append(task.job_id)
        if len(order) == FIRST + COUNTED:
            enough.set()
        await asyncio.sleep(0.1)  # far more than the workflow takes for the next one
        return await farm.rendered(task, kind)

    farm.render = render
    project_of: dict[str, str] = {}
    async with real_server() as client, farm.running(client):
        for asked in (*[requests[0]] * (frames - 1), *requests):
            project_of[(await farm.start(client, asked)).id] = asked.project_id
        await enough.wait()
        for job in project_of:
            await client.get_workflow_handle(job).terminate()
    return Counter(project_of[job] for job in order[FIRST : FIRST + COUNTED])


async def test_two_projects_get_tiles_by_their_weights() -> None:
    got = await shares(of_project("small", weight=1.0), of_project("large", weight=3.0))
    assert got["large"] / got["small"] == pytest.approx(3.0, rel=0.15), got


async def test_a_project_with_many_frames_does_not_starve_the_one_with_one() -> None:
    got = await shares(of_project("crowd"), of_project("alone"), frames=5)
    assert got["crowd"] / got["alone"] == pytest.approx(1.0, rel=0.15), got


async def test_a_higher_priority_goes_first_whatever_the_weights() -> None:
    got = await shares(of_project("low", weight=1000.0, priority=10), of_project("high", priority=90))
    assert got["low"] <= SLOTS, got


def test_long_names_of_projects_are_told_apart() -> None:
    keys = {policies.fairness_key("x" * 199 + end) for end in "ab"} | {policies.fairness_key("é/ü")}
    assert len(keys) == 3 and all(len(key.encode()) <= 64 for key in keys)
