"""Fixtures that several parts share."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--store", choices=("local", "s3"), default="local", help="what farms in tests/system keep frames in"
    )


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
