"""From a frame's films to its pictures, one row of tiles in memory at a time. Knows nothing of Temporal.

finalize_frame publishes what this makes, and `tessera verify` makes it again to compare.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from contracts import FramePlan, FrameRequest, Tile
from tracer.film import CHANNELS, NONFINITE, resolve
from tracer.images import ExrWriter, display_pixels, write_png
from workflows.tiling import tile_at, tile_count

PREVIEW_EDGE = 4096
"""The preview of a larger picture shows every second pixel, or every third: it is for looking at, and is
held in memory whole."""

Film = NDArray[np.float64]
FilmOf = Callable[[Tile], Film | None]
"""The finished film of a tile, (height, width, CHANNELS); None where there is no valid one."""


class MissingTiles(Exception):
    """Films that should be there are missing or damaged; carries their tiles' numbers."""

    def __init__(self, numbers: list[int]) -> None:
        super().__init__(f"{len(numbers)} tiles have no valid film")
        self.numbers = numbers


class MergedFrame(NamedTuple):
    """film_sha256 is the hash of the whole frame's film in row order, without headers: the same for every
    tiling."""

    exr: Path
    png: Path
    film_sha256: str
    nonfinite: int
    """Samples that were NaN or infinite."""
    nonfinite_pixel: tuple[int, int] | None
    """(x, y) of the first pixel that has some."""


def merge(plan: FramePlan, request: FrameRequest, folder: Path, film_of: FilmOf) -> MergedFrame:
    """Writes frame.exr and preview.png into folder. Raises MissingTiles, after asking for every film."""
    samples = request.samples_per_pixel
    transparent = request.settings.hide_environment
    step = -(-max(plan.width, plan.height) // PREVIEW_EDGE)
    rows, columns = -(-plan.height // step), -(-plan.width // step)
    preview = np.zeros((rows, columns, 4 if transparent else 3), dtype=np.uint8)
    digest, nonfinite, nonfinite_pixel = hashlib.sha256(), 0, None
    attributes = {
        "tessera.job_id": request.job_id,
        "tessera.scene": request.scene.version,
        "tessera.seed": str(request.settings.seed),
        "tessera.samples": str(samples),
        "tessera.engine": plan.engine,
    }
    with ExrWriter(folder / "frame.exr", plan.width, plan.height, attributes) as exr:
        for row, band in _bands(plan, film_of):
            digest.update(band.data)
            nonfinite += int(band[..., NONFINITE].sum())
            if nonfinite and nonfinite_pixel is None:
                y, x = np.argwhere(band[..., NONFINITE])[0].tolist()
                nonfinite_pixel = (x, row + y)
            channels = resolve(band, samples)
            exr.write_rows(channels)
            shown = slice(-row % step, None, step)
            rgb = np.stack([channels[c][shown, ::step] for c in "RGB"], axis=-1)
            alpha = channels["A"][shown, ::step] if transparent else None
            preview[-(-row // step) :][: len(rgb)] = display_pixels(rgb, alpha)
    write_png(folder / "preview.png", preview)
    return MergedFrame(
        folder / "frame.exr", folder / "preview.png", digest.hexdigest(), nonfinite, nonfinite_pixel
    )


def _bands(plan: FramePlan, film_of: FilmOf) -> Iterator[tuple[int, Film]]:
    """The frame's film in bands of one row of tiles: (first row of pixels, (rows, width, CHANNELS))."""
    missing: list[int] = []
    per_row = -(-plan.width // plan.tile_size)
    for first in range(0, tile_count(plan), per_row):
        tiles = [tile_at(plan, first + column) for column in range(per_row)]
        band = np.zeros((tiles[0].height, plan.width, CHANNELS))
        for number, tile in enumerate(tiles, first):
            film = film_of(tile)
            if film is None:
                missing.append(number)
            else:
                band[:, tile.x : tile.x + tile.width] = film
        if not missing:  # no picture comes of it any more, but all that is missing is to be known
            yield tiles[0].y, band
    if missing:
        raise MissingTiles(missing)
