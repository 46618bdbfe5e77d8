"""Every command of docs/operations.md is run, as it stands there, on a real farm."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.schedule import SCENES
from tests.system.bad_worker import POISON
from tests.system.conftest import OPTIONS
from tests.system.farm import ROOT, Farm, poll
from tests.system.test_faults import restarted

pytestmark = pytest.mark.system

TEXT = (ROOT / "docs" / "operations.md").read_text()
SCENE = str(SCENES / "cornell.gltf")
STEERING, LETTERS = {"Upgrading, rolling back, draining"}, {"Dead letters"}
"""Sections whose job has to be running, or parked. The others take a published one."""


def commands(sections: set[str] | None = None) -> Iterator[str]:
    """Those in the sections' blocks of shell, or in all that are neither of the others."""
    for part in re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]:
        title = part.splitlines()[0]
        if title in sections if sections else title not in STEERING | LETTERS:
            for block in re.findall(r"```sh\n(.*?)```", part, re.DOTALL):
                yield from (line.strip() for line in block.strip().splitlines())


def run(farm: Farm, command: str, job: str = "", tile: str = "") -> str:
    names = {"JOB": job, "TILE": tile, "SCENE": SCENE}
    program, *words = [names.get(word, word) for word in shlex.split(command)]
    assert program == "tessera", command
    done = subprocess.run(
        [sys.executable, "-m", "starter", *words],
        cwd=farm.folder,
        env=farm.env,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, (command, done.returncode, done.stdout, done.stderr[-2000:])
    return done.stdout


def test_commands_for_a_farm_that_works(farm: Farm) -> None:
    farm.start_worker("control")
    farm.start_worker("tiles")
    job = farm.tessera("submit", SCENE, "--size", "64x36", "--spp", "4")["job_id"]
    said = {command: run(farm, command, job) for command in commands()}
    assert "exactly what its manifest claims" in said["tessera verify JOB"]
    assert "the same way" in said["tessera replay JOB --save history.json"]
    assert "the same way" in said["tessera replay history.json"]
    assert job in said["tessera list"]
    assert (farm.folder / "first.exr").read_bytes() == (farm.folder / "again.exr").read_bytes()
    assert (farm.folder / "now.png").exists()


def test_commands_for_a_frame_that_runs(farm: Farm) -> None:
    farm.start_worker("control")
    job = farm.tessera("submit", SCENE, *OPTIONS)["job_id"]
    for command in commands(STEERING):
        run(farm, command, job)
    assert farm.tessera("status", job)["status"] not in ("paused", "cancelled")


def test_commands_for_a_dead_letter(farm: Farm) -> None:
    farm.start_worker("control")
    with restarted(farm, "segfault", "tiles"), restarted(farm, "segfault", "isolated"):
        job = farm.tessera("submit", SCENE, *OPTIONS)["job_id"]
        farm.wait_for_status(job, "dead_lettered", "completed", "failed_terminal")
    for command in commands(LETTERS):
        said = run(farm, command, job, POISON)
        assert job in said or "dead-letters" not in command
    poll(lambda: farm.tessera("status", job)["status"] == "cancelled", "the job is cancelled")


def test_a_history_that_this_version_decides_otherwise_is_told(tmp_path: Path) -> None:
    history = (ROOT / "tests/workflows/histories/troubles.json").read_text()
    other = tmp_path / "other.json"
    other.write_text(history.replace('"render_tile"', '"draw_tile"'))
    done = subprocess.run(
        [sys.executable, "-m", "starter", "replay", str(other)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1 and "ANOTHER way" in done.stdout, done.stdout + done.stderr
