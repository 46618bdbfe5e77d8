"""Real farms, and one undisturbed render that every disturbed one is compared with."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.store.s3_server import BUCKET, running_server
from tests.system.farm import ROOT, Farm, running_farm

SCENE = ROOT / "scenes" / "cornell.gltf"
SAMPLES = 600
OPTIONS = ("--size", "96x96", "--tile", "32", "--max-depth", "6", "--spp", str(SAMPLES))
"""Nine tiles of some seconds each: long enough to be hit in the middle, whatever the machine."""


@pytest.fixture(scope="session")
def stores(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where farms make their stores: a folder, or with --store s3 a bucket of a real server."""
    folder = tmp_path_factory.mktemp("stores")
    if request.config.getoption("--store") == "local":
        yield str(folder)
        return
    with running_server(folder / "weed") as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield f"s3://{BUCKET}"


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, stores: str) -> dict[str, Any]:
    """The document of a render that nothing disturbed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with running_farm(folder, stores, "control", "tiles") as farm:
        return farm.tessera("render", str(SCENE), "-o", "out.exr", *OPTIONS)


@pytest.fixture
def farm(tmp_path: Path, stores: str) -> Iterator[Farm]:
    with running_farm(tmp_path, stores) as farm:
        yield farm


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    """A copy of the scene with every file it refers to, for editing."""
    folder = tmp_path / "scene"
    folder.mkdir()
    for file in SCENE.parent.glob("cornell*"):
        shutil.copy(file, folder)
    return folder / SCENE.name
