"""Watching and steering a real farm: preview, watch on a terminal, history, how fast a cancel stops it."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from contracts import Manifest
from settings import connect
from store import layout
from tests.system.conftest import OPTIONS, SCENE
from tests.system.farm import Farm, kill, poll
from tests.system.test_crashes import submit

pytestmark = pytest.mark.system

CANCEL_SECONDS = 2.0
TILES = 9


class Terminal:
    """A command with its stderr on a terminal, and all that it has drawn there."""

    def __init__(self, farm: Farm, *words: str) -> None:
        own, theirs = pty.openpty()
        self.drawn = b""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "starter", *words],
            cwd=farm.folder,
            env=farm.env | {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "50"},
            stdout=subprocess.DEVNULL,
            stderr=theirs,
        )
        farm.processes.append(self.process)
        os.close(theirs)
        threading.Thread(target=self._read, args=[own], daemon=True).start()

    def _read(self, own: int) -> None:
        while True:
            try:
                self.drawn += os.read(own, 1 << 16)
            except OSError:  # the command has ended
                os.close(own)
                return

    def shows(self, text: str) -> bool:
        return text.encode() in self.drawn


def test_preview_and_watch_follow_a_frame_through_a_restart_of_the_server(farm: Farm) -> None:
    server = farm.processes[0]
    farm.start_worker("control")
    farm.start_worker("tiles")
    job = submit(farm)
    watch = Terminal(farm, "watch", job, "--picture")
    follow = farm.start_tessera("preview", job, "-o", "x.png", "--follow")
    poll((farm.folder / "x.png").exists, "a first preview")
    poll(lambda: watch.shows("▀") and watch.shows("▓"), "picture and map are drawn")
    first = (farm.folder / "x.png").read_bytes()
    assert first.startswith(b"\x89PNG") and first.endswith(b"IEND\xaeB`\x82")

    kill(server)
    farm.start_server()
    assert (watch.process.wait(240), follow.wait(240)) == (0, 0)
    assert watch.shows("completed")
    frame = Manifest.decode(farm.store.get(layout.manifest(job))[0]).frame
    (published,) = (image for image in frame.images if image.name == "preview.png")
    assert (farm.folder / "x.png").read_bytes() == farm.store.get(published.key)[0]
    assert not list(farm.folder.glob(".tessera-*"))


def test_progress_moves_by_samples_and_never_back(farm: Farm) -> None:
    farm.start_worker("control")
    farm.start_worker("tiles")
    job = submit(farm)
    seen: list[dict[str, Any]] = [farm.tessera("status", job, "--tiles")]
    while seen[-1]["status"] not in ("completed", "failed_terminal"):
        seen.append(farm.tessera("status", job, "--tiles"))
    progress = [status["progress"] for status in seen]
    assert progress == sorted(progress) and progress[-1] == 1.0
    assert any((TILES * value) % 1 > 1e-6 for value in progress)  # not by tiles
    rendering = [status for status in seen if status["in_flight"] and status["samples_per_second"] > 0]
    assert rendering and all(status["seconds_left"] >= 0 for status in rendering)
    tile = next(t for t in rendering[0]["in_flight"] if t["per_second"] > 0)
    assert tile["worker"].startswith("tiles@")
    state = rendering[0]["tile_states"][tile["tile_id"]]
    assert state in ("progressing", "rendered")  # its last film may be there before its activity has ended


def attempts_in(farm: Farm, job: str) -> list[dict[str, Any]]:
    entries = farm.tessera("history", job)["history"]
    return [entry for entry in entries if entry["tile"] not in (None, "prepare", "finalize")]


def test_history_tells_of_every_attempt_of_every_tile(farm: Farm) -> None:
    farm.start_worker("control")
    killed = farm.start_worker("tiles")
    job = submit(farm)
    farm.wait_for_films(3)
    kill(killed)
    leaving = farm.start_worker("tiles")
    poll(lambda: any(f":{leaving.pid}:" in (e["worker"] or "") for e in attempts_in(farm, job)), "it goes on")
    leaving.send_signal(signal.SIGTERM)
    leaving.wait()
    farm.start_worker("tiles")
    status = farm.wait_for_status(job, "completed", "failed_terminal")

    entries = farm.tessera("history", job)["history"]
    told = [entry for entry in entries if entry["tile"] not in (None, "prepare", "finalize")]
    ends = Counter(entry["what"].split(";")[0].split(":")[0] for entry in told)
    assert ends["rendered"] == TILES and ends["worker_lost"] >= 1 and ends["yielded"] >= 1
    assert len(told) == status["attempts"]["total"]
    assert ends["worker_lost"] == status["attempts"]["lost"]
    lost = [entry for entry in told if entry["what"].startswith("worker_lost")]
    assert all(f":{killed.pid}:" in entry["worker"] for entry in lost)
    # A killed worker may have stored more than its last heartbeat told; of all others every sample is known.
    samples: Counter[str] = Counter()
    for entry in told:
        samples[entry["tile"]] += entry["samples"]
    sound = samples.keys() - {entry["tile"] for entry in lost}
    assert sound and {samples[tile] for tile in sound} == {status["samples"]["target"] // TILES}
    whole = [entry["what"] for entry in entries if entry["tile"] is None]
    assert whole[0].startswith("submitted") and any("published by" in what for what in whole)
    assert {entry["tile"] for entry in entries} >= {"prepare", "finalize"}


def test_history_is_told_by_the_store_when_temporal_has_forgotten(farm: Farm) -> None:
    farm.start_worker("control")
    farm.start_worker("tiles")
    job = str(farm.tessera("render", str(SCENE), "-o", "a.exr", *OPTIONS[:-1], "4")["job_id"])
    for process in farm.processes:
        kill(process)
    for file in farm.folder.glob("temporal.db*"):
        file.unlink()
    farm.start_server()
    told = attempts_in(farm, job)
    assert len(told) == TILES and all(entry["worker"].startswith("tiles@") for entry in told)
    assert "Temporal has forgotten" in told[0]["what"]


def test_a_cancel_stops_rendering_on_every_worker_within_two_seconds(farm: Farm) -> None:
    """Every stopped tile stores what it has: the last film of each tells when it stopped."""
    farm.start_worker("control")
    for _ in range(3):
        farm.start_worker("tiles", 1)

    async def cancel(job: str) -> float:
        client = await connect(farm.env["TEMPORAL_ADDRESS"])
        began = time.time()
        await client.get_workflow_handle(job).cancel()
        return began

    took = []
    for seed in range(3):  # a busy machine may be slow once
        options = ("--size", "96x32", "--tile", "32", "--spp", "1000000", "--seed", str(seed))
        job = str(farm.tessera("submit", str(SCENE), *options)["job_id"])

        def all_render(job: str = job) -> bool:
            tiles = farm.tessera("status", job, "--tiles")["in_flight"]
            return len({tile["worker"] for tile in tiles if tile["samples"] > 0}) == 3

        poll(all_render, "three workers render")
        began = asyncio.run(cancel(job))
        status = farm.wait_for_status(job, "cancelled")
        films = list(farm.store.list(status["progress_pointer"]))
        assert len({film.key.split("/")[-2] for film in films}) == 3
        took.append(max(film.modified.timestamp() for film in films) - began)
        if took[-1] < CANCEL_SECONDS:
            break
    assert min(took) < CANCEL_SECONDS, took


def test_more_samples_asked_of_a_running_frame_give_the_bytes_of_a_fresh_one(farm: Farm) -> None:
    farm.start_worker("control")
    farm.start_worker("tiles")
    options = ("--size", "64x64", "--tile", "32", "--max-depth", "4")
    job = str(farm.tessera("submit", str(SCENE), *options, "--spp", "100")["job_id"])
    more = str(farm.tessera("more", job, "--spp", "200")["job_id"])
    refined = farm.wait_for_status(more, "completed", "failed_terminal")
    farm.wait_for_status(job, "completed")
    fresh = farm.tessera("render", str(SCENE), "-o", "b.exr", *options, "--spp", "200", "--project", "fresh")
    assert refined["result"]["film_sha256"] == fresh["result"]["film_sha256"]
    assert Path(farm.folder / "b.exr").exists()
