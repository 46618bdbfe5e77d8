"""Scratch folders: what a killed finalizer leaves goes, what a living one works in stays."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from activities.scratch import LEFTOVER_SECONDS, PREFIX, remove_leftovers, scratch_folder

HOLDER = """
from activities.scratch import scratch_folder
with scratch_folder() as folder:
    (folder / "frame.exr").write_bytes(b"x")
    print(folder, flush=True)
    input()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def make_old(folder: Path) -> None:
    past = folder.stat().st_mtime - LEFTOVER_SECONDS - 1
    os.utime(folder, (past, past))


def test_a_folder_is_gone_at_the_end(temporary: Path) -> None:
    with scratch_folder() as folder:
        assert folder.is_dir()
    assert list(temporary.iterdir()) == []


def test_the_folder_of_a_killed_process_is_removed_and_that_of_a_living_one_is_not(temporary: Path) -> None:
    environment = os.environ | {"TMPDIR": str(temporary), "PYTHONPATH": str(Path(__file__).parents[2])}
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    folder = Path(holder.stdout.readline().decode().strip())
    make_old(folder)
    assert remove_leftovers(temporary) == 0
    assert (folder / "frame.exr").is_file()
    holder.kill()
    holder.communicate()
    assert folder.is_dir()
    assert remove_leftovers(temporary) == 1
    assert not folder.exists()


def test_a_young_folder_stays(temporary: Path) -> None:
    young = temporary / f"{PREFIX}young"
    young.mkdir()
    assert remove_leftovers(temporary) == 0
    make_old(young)
    assert remove_leftovers(temporary) == 1
