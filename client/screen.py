"""What `tessera watch` shows on a terminal: bar, map of tiles, workers, retries, last errors, the picture."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from client.pending import PendingTile
from client.progress import Progress
from client.rate import Rate, count
from client.report import Report, Told, describe, percent, warnings_of
from client.tilemap import COLOURS, SIGNS, TileMap
from contracts import Failure, JobStatus, TileStatus

if TYPE_CHECKING:
    from client.picture import Pixels

SHOWN_WORKERS, SHOWN_ERRORS = 8, 3
BAR = 40
PICTURE_ROWS = 24
"""Lines of text; each has two rows of pixels."""

PictureOf = Callable[[JobStatus], "Pixels | None"]


@contextmanager
def watching(console: Console, told: Told, progress: Progress, picture: PictureOf | None) -> Iterator[Report]:
    """What to call with every new status of the job that `progress` is of, for as long as the block lasts."""
    screen = Screen(progress, picture)
    with Live(console=console, auto_refresh=False, vertical_overflow="visible") as live:

        def report(status: JobStatus) -> None:
            for warning in told.new(warnings_of(status)):
                live.console.print(warning, markup=False, highlight=False)
            live.update(screen.draw(status, live.console.width), refresh=True)

        yield report


class Screen:
    """Draws one job. Keeps what a look alone does not know: the rate and the last errors."""

    def __init__(
        self,
        progress: Progress,
        picture: PictureOf | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._progress = progress
        self._picture = picture
        self._clock = clock
        self._rate = Rate()
        self._errors: deque[Failure] = deque(maxlen=SHOWN_ERRORS)

    def draw(self, status: JobStatus, width: int) -> RenderableType:
        tiles = self._progress.in_flight
        parts: list[RenderableType] = [self._headline(status, width)]
        tile_map = self._progress.tile_map(status)
        if tile_map is not None and not status.status.is_final:
            parts += [map_text(tile_map), legend(tile_map)]
        if workers := workers_of(tiles):
            parts.append(workers)
        parts += [self._error_lines(status, tiles)]
        pixels = self._picture(status) if self._picture is not None else None
        if pixels is not None:
            parts.append(half_blocks(pixels, width, PICTURE_ROWS))
        return Group(*parts)

    def _headline(self, status: JobStatus, width: int) -> RenderableType:
        table = Table.grid(padding=(0, 1))
        table.add_column(no_wrap=True)
        table.add_column(width=min(BAR, max(10, width // 4)))
        table.add_column(overflow="ellipsis", no_wrap=True, ratio=1)
        text = describe(status) + self._rate.text(status, self._clock())
        table.add_row(percent(status), ProgressBar(total=1.0, completed=status.progress), Text(text))
        return table

    def _error_lines(self, status: JobStatus, tiles: list[PendingTile]) -> Text:
        found = [tile.failure for tile in tiles if tile.failure is not None]
        if status.error is not None:
            found.append(status.error)
        for failure in sorted(found, key=lambda failure: failure.at):
            if not any(is_same(failure, known) for known in self._errors):
                self._errors.append(failure)
        lines = [
            f"{failure.at:%H:%M:%S} {failure.tile_id or 'frame'} attempt {failure.attempt} on "
            f"{failure.worker or 'nobody'}: {failure.code}: {' '.join(failure.message.split())}"
            for failure in self._errors
        ]
        return Text(
            "\n".join(lines), style="red", no_wrap=True, overflow="ellipsis", end="\n" if lines else ""
        )


def is_same(one: Failure, other: Failure) -> bool:
    """Temporal's and the workflow's words for one failure differ in time and wording."""
    return (one.tile_id, one.attempt, one.code) == (other.tile_id, other.attempt, other.code)


def map_text(tile_map: TileMap) -> Text:
    text = Text(no_wrap=True)
    for row in tile_map.rows():
        for status in row:
            text.append(SIGNS[status], COLOURS[status])
        text.append("\n")
    text.right_crop(1)
    return text


def legend(tile_map: TileMap) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis")
    for status, number in tile_map.counts().items():
        text.append(f"{SIGNS[status]} {status} {number}  ", COLOURS[status])
    return text


def workers_of(tiles: list[PendingTile]) -> Table | None:
    """A line a worker that has tiles: how many, how fast, which attempts are no first ones."""
    at_work = [tile for tile in tiles if tile.status in (TileStatus.LEASED, TileStatus.PROGRESSING)]
    if not at_work:
        return None
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bright_black")
    for title in ("worker", "tiles", "samples/s", "retries"):
        table.add_column(title, no_wrap=True)
    names = sorted({tile.worker for tile in at_work})
    for name in names[:SHOWN_WORKERS]:
        own = [tile for tile in at_work if tile.worker == name]
        speed = sum(tile.per_second for tile in own)
        retries = sum(tile.lost for tile in own)
        table.add_row(Text(name), str(len(own)), count(speed) if speed else "", str(retries or ""))
    if len(names) > SHOWN_WORKERS:
        table.add_row(f"and {len(names) - SHOWN_WORKERS} more", "", "", "")
    return table


def half_blocks(pixels: Pixels, columns: int, rows: int) -> Text:
    """The picture in at most `columns` characters by `rows` lines. Each character is two pixels, one above
    the other: a terminal's cell is about twice as high as wide. pixels: (height, width, 3 or 4)."""
    import numpy as np

    height, width = pixels.shape[:2]
    scale = max(width / columns, height / (2 * rows), 1.0)
    across, down = max(1, int(width / scale)), max(1, int(height / scale))
    ys = (np.arange(down) * height) // down
    xs = (np.arange(across) * width) // across
    shown = pixels[np.ix_(ys, xs)][..., :3]
    text = Text(no_wrap=True)
    for y in range(0, down, 2):
        lower = shown[y + 1] if y + 1 < down else np.zeros_like(shown[y])
        for top, bottom in zip(shown[y].tolist(), lower.tolist(), strict=True):
            text.append("▀", "#{:02x}{:02x}{:02x} on #{:02x}{:02x}{:02x}".format(*top, *bottom))
        text.append("\n")
    text.right_crop(1)
    return text
