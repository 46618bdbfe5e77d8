"""What `watch` shows: where each tile stands, who renders it, what went wrong, and the picture."""

from __future__ import annotations

from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console, RenderableType

from client.pending import PendingTile
from client.progress import Progress
from client.screen import Screen, half_blocks
from client.tilemap import MAX_COLUMNS, MAX_ROWS, TileMap
from contracts import (
    ErrorCode,
    Failure,
    FramePlan,
    FrameRequest,
    FrameStatus,
    SampleCounts,
    SceneRef,
    TileStatus,
)
from store import LocalStore, layout
from tests.client.test_report import job
from workflows.tiling import tile_at

SAMPLES = 8
WORKER = "tiles@host:1:ab"


def plan(columns: int, rows: int) -> FramePlan:
    request = FrameRequest(
        project_id="p",
        scene=SceneRef(version="0" * 64, entry="a.glb"),
        picture_version=1,
        samples_per_pixel=SAMPLES,
    )
    return FramePlan(
        sample_key=request.sample_key("e"),
        engine="e",
        request=request,
        scene_hash="1" * 64,
        width=16 * columns,
        height=16 * rows,
        tile_size=16,
    )


def name(of: FramePlan, number: int) -> str:
    return tile_at(of, number).tile_id


def in_flight(of: FramePlan, number: int, status: TileStatus, **more: Any) -> PendingTile:
    values: dict[str, Any] = {
        "samples": 2,
        "done": 2 * 256,
        "begun": 1,
        "lost": 0,
        "worker": WORKER,
        "resumed": 0,
    }
    return PendingTile(name(of, number), status, **(values | more))


def failure(tile_id: str, attempt: int = 1, message: str = "the disk\nis full") -> Failure:
    at = datetime(2026, 1, 1, 12, 30, attempt, tzinfo=UTC)
    return Failure(
        code=ErrorCode.STORAGE_FULL, message=message, at=at, worker=WORKER, tile_id=tile_id, attempt=attempt
    )


def text_of(renderable: RenderableType, width: int = 100) -> str:
    out = StringIO()
    Console(file=out, width=width, force_terminal=False).print(renderable)
    return out.getvalue()


def test_the_map_has_a_sign_for_the_state_of_every_tile() -> None:
    of = plan(3, 2)
    stored = {name(of, 0): SAMPLES, name(of, 5): SAMPLES - 1}
    flying = [
        in_flight(of, 1, TileStatus.PROGRESSING),
        in_flight(of, 2, TileStatus.FAILED_RETRYABLE),
        in_flight(of, 3, TileStatus.LEASED),
    ]
    made = TileMap(of, SAMPLES, stored, flying, dead=[name(of, 4)])
    assert made.text().splitlines()[:2] == ["█▓!", "▒X·"]
    assert made.states[name(of, 5)] is TileStatus.QUEUED
    assert "! failed_retryable 1" in made.text() and sum(made.counts().values()) == 6


def test_a_large_map_shows_the_worst_of_the_tiles_under_a_sign() -> None:
    of = plan(2 * MAX_COLUMNS, 2 * MAX_ROWS)
    dead = [name(of, 2 * MAX_COLUMNS + 3)]  # second row, fourth column
    rows = TileMap(of, SAMPLES, {}, [], dead).rows()
    assert (len(rows), {len(row) for row in rows}) == (MAX_ROWS, {MAX_COLUMNS})
    assert [status for row in rows for status in row].count(TileStatus.DEAD_LETTERED) == 1
    assert rows[0][1] is TileStatus.DEAD_LETTERED


@pytest.fixture
def progress(tmp_path: Path) -> Progress:
    """Of a frame of six tiles, the first of which is rendered."""
    store, of = LocalStore(tmp_path / "store"), plan(3, 2)
    store.put_new(layout.job(of.request.job_id), of.request.model_dump_json().encode())
    store.put_new(layout.plan(of.sample_key), of.model_dump_json().encode())
    store.put_new(layout.film(of.sample_key, name(of, 0), SAMPLES), b"film")
    return Progress(store, of.request.job_id)


def look(progress: Progress, *tiles: PendingTile, **more: Any) -> Any:
    of = plan(3, 2)
    target = SampleCounts(target=6 * 256 * SAMPLES)
    return progress.complete(job(input_hash=of.sample_key, samples=target, **more), tiles)


def test_the_screen_has_bar_map_workers_retries_and_errors(progress: Progress) -> None:
    of = plan(3, 2)
    tiles = [
        in_flight(of, 1, TileStatus.PROGRESSING, per_second=1500.0, lost=2, failure=failure(name(of, 1), 2)),
        in_flight(of, 2, TileStatus.LEASED),
    ]
    screen = Screen(progress)
    shown = text_of(screen.draw(look(progress, *tiles), 100))
    assert "25.0 %" in shown  # 8 + 2 + 2 of 48 samples
    assert "█▓▒" in shown and "···" in shown
    (worker,) = [line for line in shown.splitlines() if line.startswith(WORKER)]
    assert worker.split()[1:] == ["2", "1.5", "k", "2"]
    assert f"12:30:02 {name(of, 1)} attempt 2 on {WORKER}: storage_full: the disk is full" in shown


def test_an_error_is_shown_once_and_stays_for_a_while(progress: Progress) -> None:
    of, screen = plan(3, 2), Screen(progress)
    for attempt in (1, 2, 3, 4, 4):
        tile = in_flight(of, 1, TileStatus.PROGRESSING, failure=failure(name(of, 1), attempt))
        screen.draw(look(progress, tile), 100)
    shown = text_of(screen.draw(look(progress), 100))
    assert [line.split()[3] for line in shown.splitlines() if "storage_full" in line] == ["2", "3", "4"]


def test_what_has_ended_has_no_map(progress: Progress) -> None:
    ended = look(progress, status=FrameStatus.CANCELLED)
    assert "·" not in text_of(Screen(progress).draw(ended, 100))


def test_the_picture_is_drawn_in_half_blocks(progress: Progress) -> None:
    pixels = np.zeros((4, 6, 3), np.uint8)
    pixels[0, 0], pixels[1, 0] = (255, 0, 0), (0, 0, 255)
    text = half_blocks(pixels, columns=80, rows=24)
    assert text.plain == "▀" * 6 + "\n" + "▀" * 6
    assert str(text.spans[0].style) == "#ff0000 on #0000ff"
    large = half_blocks(np.zeros((400, 600, 4), np.uint8), columns=80, rows=20).plain.splitlines()
    assert len(large) == 20 and {len(line) for line in large} == {60}
    shown = text_of(Screen(progress, lambda status: pixels).draw(look(progress), 100))
    assert "▀▀▀▀▀▀" in shown
