"""The program as others call it: exit codes, one JSON document, help, and a quick start."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from starter import load, main, make_parser

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
    "preview",
    "history",
    "priority",
    "more",
)
HELP_NEEDS_NO = {"temporalio", "pydantic", "asyncio", "contracts", "settings"}
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


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--spp", "0"), "--spp: 0: must be greater than or equal to 1"),
        (("--size", "0x8"), "--size: 0: must be"),
        (("--size", "99999x8"), "--size: 99999: must be"),
        (("--max-depth", "0"), "--max-depth: 0: must be"),
        (("--seed", "-1"), "--seed: -1: must be"),
        (("--fps", "0"), "--fps: 0.0: must be"),
        (("--priority", "101"), "--priority: 101: must be"),
        (("--tile", "129"), "--tile: 129: must be"),
        (("--fov", "180"), "--fov: 180.0: must be"),
        (("--look-from", "nan,0,0"), "--look-from: nan: must be"),
        (("--aperture", "-1", "--focus", "1"), "--aperture: -1.0: must be"),
        (("--aperture", "1"), "an aperture needs a focus distance (--focus)"),
        (("--focus", "0"), "--focus: 0.0: must be"),
        (("--environment", "a.txt"), "--environment: a.txt: neither three numbers"),
        (("--environment", "-1,0,0"), "--environment: radiance must not be negative"),
        (("--environment", "1,1,1", "--environment-scale", "-1"), "--environment-scale: -1.0: must be"),
        (("--environment-scale", "2"), "--environment: give either a picture file or three numbers R,G,B"),
        (("--project", ""), "--project: "),
    ],
)
def test_a_bad_value_is_told_by_the_name_of_its_option(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    scene = tmp_path / "a.obj"
    scene.write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
    assert main(["submit", str(scene), *words]) == 2
    assert capsys.readouterr().err.startswith(f"tessera: {says}")


def test_the_version_names_the_engine(tmp_path: Path) -> None:
    done = tessera(tmp_path, "--version")
    assert done.returncode == 0
    assert re.fullmatch(r"tessera \S.*, picture version \d+, engine [0-9a-f]{16}\n", done.stdout)


def test_bad_settings_are_exit_code_2(tmp_path: Path) -> None:
    done = tessera(tmp_path, "list", TESSERA_SLOTS="0")
    assert done.returncode == 2 and done.stderr.startswith("tessera: slots:")


def test_an_unknown_job_starts_no_farm(tmp_path: Path) -> None:
    """Where no farm has ever run there is nothing to ask."""
    done = tessera(tmp_path, "status", "frame-none", TEMPORAL_ADDRESS="")
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"tessera: 'frame-none': no such job in the local farm of {tmp_path}/state ("
    )
    listed = tessera(tmp_path, "list", TEMPORAL_ADDRESS="")
    assert (listed.returncode, listed.stdout) == (0, "")
    assert listed.stderr.startswith(f"no frames in the local farm of {tmp_path}/state (")
    assert not (tmp_path / "state" / "temporal.db").exists()


def test_a_store_that_cannot_be_used_is_exit_code_69(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = tessera(tmp_path, "status", "j", "--json", TESSERA_STORE=str(tmp_path / "file"))
    assert done.returncode == 69 and json.loads(done.stdout)["error"]["code"] == "storage_denied"


def imported_by(folder: Path, *commands: list[str]) -> set[str]:
    """The modules that a process has loaded after these commands."""
    code = (
        "import sys, starter\n"
        f"for words in {commands}:\n"
        "    try: starter.main(words)\n"
        "    except SystemExit: pass\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "TESSERA_STATE_DIR": str(folder / "state")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


def test_help_and_a_mistyped_option_load_next_to_nothing(tmp_path: Path) -> None:
    assert imported_by(tmp_path, ["--help"], ["status", "--dance"]) & (HELP_NEEDS_NO | SLOW_IMPORTS) == set()


def test_what_starts_slowly_is_not_loaded_for_a_status(tmp_path: Path) -> None:
    loaded = imported_by(tmp_path, ["--version"], ["status", "j"])
    assert "client.commands" in loaded and loaded & SLOW_IMPORTS == set()


def test_every_command_is_there() -> None:
    (commands,) = (action for action in make_parser()._actions if action.dest == "command")
    assert isinstance(commands.choices, dict)
    runs = {name: parser.get_default("run") for name, parser in commands.choices.items()}
    assert set(COMMANDS) <= set(runs)
    assert all(callable(load(run)) for name, run in runs.items() if name != "dev")
