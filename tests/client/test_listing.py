"""`tessera list`: filters, and no request a frame."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from client import session as client_session
from contracts import FrameRequest, FrameRun, FrameStatus, SceneRef
from settings import connect
from tests.client.desk import PATIENCE, Desk
from workflows import attributes, queues

pytestmark = pytest.mark.asyncio(loop_scope="module")

FRAMES = 500
PROJECT = f"crowd-{uuid4().hex[:8]}"


async def start(client: Client, number: int, scene: str) -> str:
    """A frame that waits for a worker."""
    request = FrameRequest(
        project_id=PROJECT,
        scene=SceneRef(version="0" * 64, entry=scene),
        picture_version=1,
        frame_number=number,
    )
    handle = await client.start_workflow(
        "FrameWorkflow",
        FrameRun(request=request, created_at=datetime.now(UTC)),
        id=request.job_id,
        task_queue=queues.CONTROL,
        search_attributes=attributes.of_request(request),
    )
    return handle.id


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def crowd(server: WorkflowEnvironment) -> AsyncIterator[list[str]]:
    """FRAMES frames, every tenth of another scene; one of them is terminated."""
    client = server.client
    jobs = []
    for first in range(0, FRAMES, 50):
        numbers = range(first, first + 50)
        jobs += await asyncio.gather(
            *(start(client, n, "other.glb" if n % 10 == 0 else "box.glb") for n in numbers)
        )
    await client.get_workflow_handle(jobs[1]).terminate()
    for _ in range(PATIENCE):
        listed = await client.count_workflows(f"RenderProject = '{PROJECT}'")
        ended = await client.count_workflows(
            f"RenderProject = '{PROJECT}' AND ExecutionStatus = 'Terminated'"
        )
        if (listed.count, ended.count) == (FRAMES, 1):
            break
        await asyncio.sleep(0.05)
    yield jobs
    for job in jobs:
        if job != jobs[1]:
            await client.get_workflow_handle(job).terminate()


async def rows(desk: Desk, *words: str) -> list[dict[str, Any]]:
    done = await desk.run("list", "--project", PROJECT, *words)
    assert done.code == 0
    found: list[dict[str, Any]] = done.content["frames"]
    return found


async def test_it_filters_by_status_scene_and_age(desk: Desk, crowd: list[str]) -> None:
    everything = await rows(desk, "--limit", "1000")
    assert {row["job_id"] for row in everything} == set(crowd)
    (ended,) = [row for row in everything if row["job_id"] == crowd[1]]
    assert ended["status"] == "cancelled"  # terminated: its attribute still says queued
    assert len(await rows(desk, "--scene", "other.glb", "--limit", "1000")) == FRAMES // 10
    assert len(await rows(desk, "--status", "queued", "--since", "1h", "--limit", "1000")) >= FRAMES - 1
    assert await rows(desk, "--older-than", "1h") == []
    assert await rows(desk, "--status", "completed") == []


async def test_a_cut_list_says_so(desk: Desk, crowd: list[str]) -> None:
    code, out, errors = await desk.say("list", "--project", PROJECT, "--limit", "7")
    assert (code, len(out.splitlines())) == (0, 1 + 7)
    assert "only the newest 7 are shown" in errors


async def test_a_list_of_500_frames_is_one_request(
    desk: Desk, crowd: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What makes it quick, whatever the machine: bench/room.py measures the time."""
    calls: list[str] = []

    async def counted(address: str | None) -> Client:
        client = await connect(address)
        call = client.service_client._rpc_call

        async def count(rpc: str, *arguments: Any, **more: Any) -> Any:
            calls.append(rpc)
            return await call(rpc, *arguments, **more)

        monkeypatch.setattr(client.service_client, "_rpc_call", count)
        return client

    monkeypatch.setattr(client_session, "_connect", counted)
    assert len(await rows(desk, "--limit", "1000")) == FRAMES
    assert calls == ["list_workflow_executions"] * 2  # of sequences, and of frames
    assert FrameStatus.QUEUED in {row["status"] for row in await rows(desk)}
