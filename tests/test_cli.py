"""The program as others call it: exit codes, one JSON document, help, and a quick start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COMMANDS = (
    "render",
    "submit",
    "status",
    "watch",
    "pause",
    "resume",
    "retry",
    "cancel",
    "fetch",
    "list",
    "dev",
)
SLOW_IMPORTS = {"numpy", "numba", "llvmlite", "rich", "OpenEXR", "PIL", "boto3", "workflows.frame"}


def tessera(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"TESSERA_STATE_DIR": str(folder / "state")} | environment
    return subprocess.run(
        [sys.executable, str(ROOT / "starter.py"), *words],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_help_names_every_command_and_has_examples(tmp_path: Path) -> None:
    done = tessera(tmp_path, "--help")
    assert done.returncode == 0
    for word in (*COMMANDS, "examples:", "exit codes:"):
        assert word in done.stdout
    for command in COMMANDS:
        assert tessera(tmp_path, command, "--help").returncode == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "COMMAND"),
        (("dance",), "dance"),
        (("render", "a.obj"), "-o"),
        (("render", "a.obj", "-o", "a.exr", "--spp", "many"), "--spp"),
        (("submit", "a.obj", "--size", "12"), "1280x720"),
        (("fetch", "j", "-o", "a.png", "--exposure", "inf"), "--exposure"),
    ],
)
def test_bad_usage_is_exit_code_2(tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    done = tessera(tmp_path, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr


def test_bad_input_is_one_line_and_one_document(tmp_path: Path) -> None:
    done = tessera(tmp_path, "render", "nowhere.obj", "-o", "a.exr", "--json")
    error = json.loads(done.stdout)["error"]
    assert done.returncode == error["exit_code"] == 2
    assert error["code"] == "asset_missing" and "nowhere.obj" in error["message"]
    assert done.stderr == f"tessera: {error['message']}\n"
    assert list(tmp_path.iterdir()) == []  # nothing was started, and nothing is left


def test_bad_settings_are_exit_code_2(tmp_path: Path) -> None:
    done = tessera(tmp_path, "list", TESSERA_SLOTS="0")
    assert done.returncode == 2 and done.stderr.startswith("tessera: slots:")


def test_an_unknown_job_starts_no_farm(tmp_path: Path) -> None:
    """Where no farm has ever run there is nothing to ask."""
    done = tessera(tmp_path, "status", "frame-none", TEMPORAL_ADDRESS="")
    assert (done.returncode, done.stderr) == (2, "tessera: 'frame-none': no such job; see `tessera list`\n")
    assert tessera(tmp_path, "list", TEMPORAL_ADDRESS="").returncode == 0
    assert not (tmp_path / "state" / "temporal.db").exists()


def test_a_store_that_cannot_be_used_is_exit_code_69(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = tessera(tmp_path, "status", "j", "--json", TESSERA_STORE=str(tmp_path / "file"))
    assert done.returncode == 69 and json.loads(done.stdout)["error"]["code"] == "storage_denied"


def test_what_starts_slowly_is_not_loaded_for_a_status() -> None:
    code = f"import sys, starter; print(sorted({SLOW_IMPORTS} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr
