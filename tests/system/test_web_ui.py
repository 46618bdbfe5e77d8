"""Temporal's Web UI in a real browser: what a person finds there of a frame that needs them.

`python -m tests.system.test_web_ui docs/web_ui.png` takes the picture that the README shows.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Page, async_playwright
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment

from client.server import SHARING
from contracts import ErrorCode, FrameResult, FrameRun, FrameStatus, TileResult, TileTask
from tests.system.farm import free_port
from tests.workflows.farm import Farm, binary, is_status, request, wait_for
from workflows import attributes, queues
from workflows.frame import FrameWorkflow
from workflows.launch import frame_launch

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
LOOKS = 300
POISON, GOOD = "x0000y0000w0016h0016", "x0016y0000w0016h0016"

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(BROWSER is None, reason="needs a Chromium, as the system's package has it"),
]


@asynccontextmanager
async def parked_frame() -> AsyncIterator[tuple[str, WorkflowHandle[FrameWorkflow, FrameResult]]]:
    """(the address of its pages, the frame): one of its tiles kills whatever renders it."""
    port, farm = free_port(), Farm(tiles=6)

    async def render(task: TileTask, kind: str) -> TileResult:
        if task.tiles[0].tile_id == POISON:
            raise ApplicationError(
                "the process that rendered died of SIGSEGV",
                type=ErrorCode.RENDERER_CRASHED,
                next_retry_delay=timedelta(milliseconds=50),
            )
        return await farm.rendered(task, kind)

    farm.render = render
    asked = request(samples=64)
    launch = frame_launch(asked)
    async with (
        await WorkflowEnvironment.start_local(
            dev_server_existing_path=binary("temporal"),
            data_converter=pydantic_data_converter,
            search_attributes=list(attributes.ALL),
            dev_server_extra_args=SHARING,
            ui=True,
            ui_port=port,
        ) as env,
        farm.running(env.client),
    ):
        handle = await env.client.start_workflow(
            FrameWorkflow.run,
            FrameRun(request=asked, created_at=datetime.now(UTC)),
            id=asked.job_id,
            task_queue=queues.CONTROL,
            memo=launch.memo,
            search_attributes=launch.search_attributes,
            static_summary=launch.static_summary,
            static_details=launch.static_details,
            priority=launch.priority,
        )
        await wait_for(handle, is_status(FrameStatus.DEAD_LETTERED), "parked")
        run = handle.first_execution_run_id
        yield f"http://127.0.0.1:{port}/namespaces/default/workflows/{handle.id}/{run}", handle


@asynccontextmanager
async def browser_page() -> AsyncIterator[Page]:
    async with async_playwright() as playwright:
        # The sandbox needs rights that a container does not give; the pages are our own.
        browser = await playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield await browser.new_page(viewport={"width": 1400, "height": 1250})
        await browser.close()


async def text_of(page: Page) -> str:
    """Of the page and of the frames in it, where markdown is shown."""
    return "\n".join([await frame.locator("body").inner_text() for frame in page.frames])


async def shows(page: Page, *wanted: str) -> None:
    """Waits until the page shows all of it."""
    text = ""
    for _ in range(LOOKS):
        with suppress(PlaywrightError):  # it was drawn anew just then
            text = await text_of(page)
        if all(part in text for part in wanted):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{[part for part in wanted if part not in text]} not in {page.url}:\n{text}")


async def test_a_person_finds_what_a_frame_is_what_went_wrong_and_what_to_do() -> None:
    async with parked_frame() as (address, handle), browser_page() as page:
        status = await handle.query(FrameWorkflow.status)
        await page.goto(f"{address}/user-metadata")
        await shows(page, "box.glb frame 1, 64 samples", "project test, default size, depth 8")
        await shows(page, "dead_lettered", "What to do:", "Mend the cause", "discard_on_cancel")
        await shows(page, "tile_poisonous", POISON, "SIGSEGV", handle.id, status.idempotency_key)
        await page.goto(f"{address}/search-attributes")
        names = [key.name for key in attributes.ALL]
        await shows(page, *names, "dead_lettered", "tile_poisonous", "box.glb", status.idempotency_key)
        await page.goto(f"{address}/timeline")
        await shows(page, f"tile {GOOD} (row 1 of 1, column 2 of 6), to 64 samples")


async def test_every_signal_query_and_update_says_what_it_does() -> None:
    """The Web UI shows these descriptions where it offers to send one."""
    async with parked_frame() as (_, handle):
        metadata = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
    known = metadata.definition
    own = {
        kind: {each.name: each.description for each in found if not each.name.startswith("__")}
        for kind, found in (
            ("query", known.query_definitions),
            ("signal", known.signal_definitions),
            ("update", known.update_definitions),
        )
    }
    assert set(own["signal"]) == {"pause", "resume", "retry", "discard_on_cancel", "set_priority"}
    assert set(own["update"]) == {"pause", "resume", "retry", "set_priority", "more_samples"}
    assert "status" in own["query"]
    assert all(len(text) > 10 for found in own.values() for text in found.values())


async def take_picture(path: Path) -> None:
    async with parked_frame() as (address, _), browser_page() as page:
        await page.goto(f"{address}/user-metadata")
        await shows(page, "What to do:", POISON)
        await page.screenshot(path=path)


if __name__ == "__main__":
    asyncio.run(take_picture(Path(sys.argv[1])))
