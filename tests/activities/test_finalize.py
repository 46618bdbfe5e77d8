"""Finalizing leaves nothing behind on the worker's disk, however it ended."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from activities.finalize import TEMPORARY, remove_leftovers
from store import LocalStore
from tests import frames


def test_leftovers_of_dead_processes_go_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    for name in (f"{TEMPORARY}{dead.pid}-x", f"{TEMPORARY}{os.getpid()}-y", f"{TEMPORARY}z", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "frame.exr").write_bytes(b"half")
    remove_leftovers()
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{TEMPORARY}{os.getpid()}-y",
        f"{TEMPORARY}z",
        "other",
    }


def test_nothing_is_left_by_a_frame_that_was_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    frames.publish(LocalStore(tmp_path / "store"))
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
