"""Fixtures that several parts share."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.store.s3_server import BUCKET, S3Server, running_server


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--store", choices=("local", "s3"), default="local", help="what farms in tests/system keep frames in"
    )


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with running_server(tmp_path_factory.mktemp("s3") / "weed") as server:
        yield server


@pytest.fixture
def s3_bucket(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The server's bucket, with the environment set for this process and those that it starts."""
    server: S3Server = request.getfixturevalue("s3_server")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}"


@pytest.fixture(params=["local", "s3"])
def new_store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Each call gives the address of another empty store, for this process or for others. A back end is one
    more parameter here; every test that asks for a store's address then runs against it."""
    numbers = itertools.count()
    if request.param == "local":
        return lambda: str(tmp_path / "stores" / str(next(numbers)))
    bucket, name = request.getfixturevalue("s3_bucket"), uuid.uuid4().hex
    return lambda: f"{bucket}/{name}/{next(numbers)}"


@pytest.fixture
def store_url(new_store_url: Callable[[], str]) -> str:
    return new_store_url()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    point = tmp_path / "disk"
    point.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(point)]
    if shutil.which("mount") is None or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("mounting a file system needs root")
    try:
        yield point
    finally:
        subprocess.run(["umount", str(point)], check=True)


def run_python(code: str, folder: Path, environment: dict[str, str] | None = None) -> str:
    """What the code prints, run by another Python in the folder with np, Path and tracer.images imported."""
    imports = "import numpy as np\nfrom pathlib import Path\nfrom tracer.images import *\n"
    root = str(Path(__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", imports + textwrap.dedent(code)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": root} | (environment or {}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# No test may depend on the machine's speed: a slow example is not a wrong one.
settings.register_profile("tessera", deadline=None)
settings.load_profile("tessera")
