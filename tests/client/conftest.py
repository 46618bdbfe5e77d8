"""A scene of a few files, a store, and a command line with a Temporal server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from store import LocalStore
from tests.client.desk import Desk
from tests.client.published_frame import Publish, publish_frame
from tests.workflows.farm import binary
from workflows import attributes


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    """An OBJ with a material library and a picture, in a folder with a name that people have."""
    folder = tmp_path / "a scene – ü 🎬"
    folder.mkdir()
    (folder / "tri angle.obj").write_text(
        "mtllib colours.mtl\nusemtl red\nv 0 0 0\nv 1 0 0\nv 0 1 0\nvt 0 0\nf 1/1 2/1 3/1\n"
    )
    (folder / "colours.mtl").write_text("newmtl red\nKd 1 0 0\nmap_Kd wood grain.png\n")
    (folder / "wood grain.png").write_bytes(b"a picture, as far as the client is concerned")
    return folder / "tri angle.obj"


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


@pytest.fixture
def publish(tmp_path: Path) -> Publish:
    """Puts a frame's picture and manifest into a store, as finalizing does."""
    return lambda store, request: publish_frame(store, request, tmp_path)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[WorkflowEnvironment]:
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=binary("temporal"),
        search_attributes=attributes.ALL,
        data_converter=pydantic_data_converter,
        dev_server_extra_args=["--dynamic-config-value", 'history.timerProcessorMaxTimeShift="50ms"'],
    ) as environment:
        yield environment


@pytest.fixture
def desk(
    server: WorkflowEnvironment,
    scene: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Desk:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TEMPORAL_ADDRESS", server.client.service_client.config.target_host)
    monkeypatch.setenv("TESSERA_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("TESSERA_PROJECT", tmp_path.name)  # each test has jobs of its own
    return Desk(server.client, tmp_path, scene, capsys)
