"""A farm whose Temporal keeps nothing that can be read."""

from __future__ import annotations

import base64
import json
import secrets
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.conftest import SCENE
from tests.system.farm import Farm, running_farm

pytestmark = pytest.mark.system

SMALL = ("--size", "64x36", "--spp", "4")


def new_key(name: str) -> str:
    return f"{name}:{base64.b64encode(secrets.token_bytes(32)).decode()}"


def everything_kept(farm: Farm) -> bytes:
    """The rows of Temporal's database, its write-ahead log included."""
    with sqlite3.connect(f"file:{farm.folder / 'temporal.db'}?mode=ro", uri=True) as database:
        return b"\n".join(
            str(value).encode() if not isinstance(value, bytes) else value
            for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            for row in database.execute(f'SELECT * FROM "{table}"')
            for value in row
        )


def test_temporal_keeps_nothing_readable_and_keys_are_rotated(tmp_path: Path, stores: str) -> None:
    old, new = new_key("old"), new_key("new")
    with running_farm(tmp_path, stores) as farm:
        farm.env["TESSERA_ENCRYPTION_KEYS"] = old
        control, tiles = farm.start_worker("control"), farm.start_worker("tiles")
        first = farm.tessera("render", str(SCENE), "-o", "first.exr", *SMALL)
        kept = everything_kept(farm)
        assert b"binary/encrypted" in kept
        for word in (b"samples_per_pixel", b"film_sha256", first["result"]["film_sha256"].encode()):
            assert word not in kept, word

        farm.env["TESSERA_ENCRYPTION_KEYS"] = f"{new},{old}"
        for worker in (control, tiles):
            worker.terminate()
            worker.wait()
        farm.start_worker("control")
        farm.start_worker("tiles")
        assert farm.tessera("status", first["job_id"])["status"] == "completed"
        assert farm.tessera("replay", first["job_id"])["same"]
        told = json.dumps(farm.tessera("history", first["job_id"]))
        assert "tiles@" in told and "done" in told
        second = farm.tessera("render", str(SCENE), "-o", "second.exr", *SMALL, "--seed", "7")
        assert second["status"] == "completed"

        farm.env["TESSERA_ENCRYPTION_KEYS"] = old
        refused = farm.tessera("replay", second["job_id"], code=2)
        assert "encrypted with key 'new', and the keys here are: old" in refused["error"]["message"]
        farm.env["TESSERA_ENCRYPTION_KEYS"] = "old:" + base64.b64encode(b"too short").decode()
        refused = farm.tessera("status", first["job_id"], code=2)
        assert "TESSERA_ENCRYPTION_KEYS: key 1 has to be id:base64" in refused["error"]["message"]


def test_a_worker_with_keys_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    farm = Farm(tmp_path, str(tmp_path / "stores"))
    farm.env["TESSERA_ENCRYPTION_KEYS"] = "nonsense"
    done = subprocess.run(
        [sys.executable, "-m", "worker", "--role", "control"],
        env=farm.env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 69
    assert "key 1 has to be id:base64" in done.stderr and "nonsense" not in done.stderr
