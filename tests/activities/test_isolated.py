"""A tile in a process of its own: the same film, and every way to die is known for what it was."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities import isolated
from activities.isolated import CHILD, IsolatedActivities
from contracts import ErrorCode, FramePlan, FrameRequest, TileOutcome, TileTask
from store import LocalStore, layout
from tests import frames
from workflows.tiling import tile_at


class Frame:
    """A prepared frame whose first tile is to be rendered alone."""

    def __init__(self, folder: Path, samples: int) -> None:
        self.store = LocalStore(folder / "store")
        self.request: FrameRequest = frames.submit(self.store, samples)
        self.plan: FramePlan = frames.prepare(self.store, self.request)
        self.task = TileTask(
            job_id=self.request.job_id,
            sample_key=self.plan.sample_key,
            tiles=(tile_at(self.plan, 0),),
            samples=samples,
        )

    def run(self, child: Sequence[str] = CHILD, environment: ActivityEnvironment | None = None) -> Any:
        activities = IsolatedActivities(str(self.store.root), 0.05, "isolated@desk", child)
        return (environment or ActivityEnvironment()).run(activities.render_tile, self.task)

    def film(self) -> bytes:
        key = layout.film(self.plan.sample_key, self.task.tiles[0].tile_id, self.task.samples)
        return self.store.get(key)[0]


def script(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_the_film_is_the_same_as_anywhere(tmp_path: Path) -> None:
    frame = Frame(tmp_path, 8)
    result = frame.run()
    assert (result.outcome, result.finished, result.resumed) == (TileOutcome.RENDERED, 1, 0)
    other = LocalStore(tmp_path / "other")
    request = frames.submit(other, 8)
    plan = frames.render(other, request)
    key = layout.film(plan.sample_key, frame.task.tiles[0].tile_id, 8)
    assert other.get(key)[0] == frame.film()


def test_a_stop_stores_what_is_rendered_and_the_next_one_goes_on(tmp_path: Path) -> None:
    frame = Frame(tmp_path, 1 << 18)
    environment = ActivityEnvironment()
    beats: list[dict[str, Any]] = []

    def on_heartbeat(details: dict[str, Any]) -> None:
        beats.append(details)
        if details.get("samples", 0) > 0:
            threading.Thread(target=environment.cancel).start()

    environment.on_heartbeat = on_heartbeat
    result = frame.run(environment=environment)
    assert (result.outcome, result.finished) == (TileOutcome.STOPPED, 0)
    stored = [layout.film_samples(film.key) or 0 for film in frame.store.list("films/")]
    assert max(stored) >= max(beat.get("samples", 0) for beat in beats) > 0

    environment = ActivityEnvironment()
    resumed: list[int] = []

    def stop_at_once(details: dict[str, Any]) -> None:
        if "samples" in details:
            resumed.append(details["resumed"])
            threading.Thread(target=environment.cancel).start()

    environment.on_heartbeat = stop_at_once
    frame.run(environment=environment)
    assert resumed[0] == max(stored)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import ctypes; ctypes.string_at(0)", "died of SIGSEGV"),
        ("import os; os.kill(os.getpid(), 9)", "died of SIGKILL, as the kernel does when memory runs out"),
        ("import os; os.abort()", "died of SIGABRT"),
        ("raise SystemExit(3)", "left with code 3"),
    ],
)
def test_a_process_that_dies_is_a_crashed_renderer(tmp_path: Path, code: str, said: str) -> None:
    with pytest.raises(ApplicationError) as raised:
        Frame(tmp_path, 2).run(script(code))
    assert raised.value.type == ErrorCode.RENDERER_CRASHED and said in raised.value.message
    assert not raised.value.non_retryable


def test_a_silent_process_is_killed_and_the_slot_lives_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolated, "SILENCE_SECONDS", 1.0)
    frame, pid_file = Frame(tmp_path, 2), tmp_path / "pid"
    code = f"import os, time; open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(1000)"
    with pytest.raises(ApplicationError, match="no progress") as raised:
        frame.run(script(code))
    assert raised.value.type == ErrorCode.RENDERER_CRASHED
    assert not Path(f"/proc/{pid_file.read_text()}").exists()
    monkeypatch.undo()
    assert frame.run().outcome is TileOutcome.RENDERED


def test_memory_that_runs_out_is_said(tmp_path: Path) -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 33, 1 << 33)); "
    code = (
        limit + "import activities.child as child, activities.tiles as tiles; import numpy as np; "
        "tiles.new_film = lambda width, height: np.zeros(1 << 34); child.main()"
    )
    with pytest.raises(ApplicationError) as raised:
        Frame(tmp_path, 2).run(script(code))
    assert raised.value.type == ErrorCode.OUT_OF_MEMORY


def test_an_error_keeps_its_code(tmp_path: Path) -> None:
    frame = Frame(tmp_path, 2)
    frame.store.delete(layout.plan(frame.plan.sample_key))
    with pytest.raises(ApplicationError, match="plan is gone") as raised:
        frame.run()
    assert raised.value.type == ErrorCode.ASSET_MISSING and raised.value.non_retryable
