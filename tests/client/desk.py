"""A person at the command line, and the scripted farm that serves them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from contracts import (
    FinalizeOutcome,
    FinalizeTask,
    FrameResult,
)
from starter import main
from store import LocalStore, layout
from tests.client.published_frame import publish_frame
from tests.workflows.farm import Farm

PATIENCE = 400
"""Looks, 0.05 s apart, until what has not happened is a failure."""


@dataclass
class Document:
    """What one command printed on stdout with --json, and how it ended."""

    code: int
    content: Any
    errors: str


class Desk:
    """A person at the command line, and the farm that serves them."""

    def __init__(self, client: Client, folder: Path, scene: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.client, self.folder, self.scene, self.capsys = client, folder, scene, capsys
        self.store = LocalStore(folder / "store")
        self.farm = Farm(tiles=3)
        self.farm.finalize = self.publish

    async def publish(self, task: FinalizeTask) -> FinalizeOutcome:
        manifest = await asyncio.to_thread(publish_frame, self.store, task.request, self.folder)
        image = manifest.frame.images[0]
        return FinalizeOutcome(
            result=FrameResult(
                manifest=layout.manifest(task.job_id),
                image=image.key,
                sha256=image.sha256,
                film_sha256=manifest.frame.film_sha256,
            )
        )

    async def run(self, *words: str) -> Document:
        """One command with --json."""
        code, out, errors = await self.say(*words, "--json")
        return Document(code, json.loads(out), errors)

    async def say(self, *words: str) -> tuple[int, str, str]:
        """One command, in a thread of its own as it has its own event loop: its exit code, stdout, stderr."""
        code = await asyncio.to_thread(main, list(words))
        captured = self.capsys.readouterr()
        return code, captured.out, captured.err

    def errors(self) -> str:
        """What the command that runs has said on stderr since the last time."""
        captured = self.capsys.readouterr()
        assert not captured.out
        return captured.err

    async def submit(self, *words: str) -> str:
        document = await self.run("submit", str(self.scene), *words)
        assert document.code == 0, document
        return str(document.content["job_id"])

    async def until(self, job: str, accept: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        for _ in range(PATIENCE):
            status: dict[str, Any] = (await self.run("status", job)).content
            if accept(status):
                return status
            await asyncio.sleep(0.05)
        raise AssertionError(f"still {status}")

    async def until_status(self, job: str, wanted: str) -> dict[str, Any]:
        return await self.until(job, lambda status: status["status"] == wanted)
