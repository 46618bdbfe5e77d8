"""A frame's picture while it renders: the newest films in the store, put together and tone-mapped.

What is rendered looks as it does in the published preview; what is not is checkered. Only looks: a damaged
film is passed over here and left for the workers to set aside.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from activities.merge import PREVIEW_EDGE
from contracts import FramePlan, FrameRequest, Tile
from store import NotFound, Store, layout
from tracer.errors import FilmInvalid
from tracer.film import decode_film, resolve
from tracer.images import display_pixels
from workflows.tiling import tile_at, tile_count

CHECK = 8
"""Edge of a square of the checkered part, in pixels of the picture."""
LIGHT, DARK = 0x60, 0x48

Pixels = NDArray[np.uint8]


class Picture:
    """The picture of one job. It holds the pixels and reads only what is new in the store.

    A picture with an edge above PREVIEW_EDGE shows every second pixel, or every third, as the published
    preview does. Raises StoreError.
    """

    def __init__(self, store: Store, plan: FramePlan, request: FrameRequest) -> None:
        self._store = store
        self._plan = plan
        self._target = request.samples_per_pixel
        self._transparent = request.settings.hide_environment
        self._step = -(-max(plan.width, plan.height) // PREVIEW_EDGE)
        self._tiles = {tile.tile_id: tile for tile in (tile_at(plan, n) for n in range(tile_count(plan)))}
        self.samples: dict[str, int] = {}
        """Samples a pixel of every tile that is shown, by tile_id."""
        rows, columns = -(-plan.height // self._step), -(-plan.width // self._step)
        self.pixels = checkered(rows, columns, 4 if self._transparent else 3)
        """(rows, columns, 3) sRGB; (rows, columns, 4) with straight alpha where the environment is hidden."""

    def refresh(self) -> bool:
        """Takes up what is new in the store. Says whether anything was."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for blob in self._store.list(layout.films(self._plan.sample_key)):
            samples, tile_id = layout.film_samples(blob.key), blob.key.split("/")[-2]
            if samples is not None and samples <= self._target and tile_id in self._tiles:
                found[tile_id].append(samples)
        return any([self._show(self._tiles[tile_id], counts) for tile_id, counts in found.items()])

    @property
    def share(self) -> float:
        """Of the frame's samples, how many are in the picture: 0 to 1."""
        shown = sum(self._tiles[tile_id].area * samples for tile_id, samples in self.samples.items())
        return shown / (self._plan.width * self._plan.height * self._target)

    def _show(self, tile: Tile, counts: list[int]) -> bool:
        """Draws the tile's newest film that is whole, if it is newer than what is drawn."""
        newer = [samples for samples in counts if samples > self.samples.get(tile.tile_id, 0)]
        for film, samples in self._films(tile, sorted(newer, reverse=True)):
            channels = resolve(film, samples)
            rows, columns = (
                slice(-tile.y % self._step, None, self._step),
                slice(-tile.x % self._step, None, self._step),
            )
            rgb = np.stack([channels[c][rows, columns] for c in "RGB"], axis=-1)
            alpha = channels["A"][rows, columns] if self._transparent else None
            top, left = -(-tile.y // self._step), -(-tile.x // self._step)
            self.pixels[top : top + rgb.shape[0], left : left + rgb.shape[1]] = display_pixels(rgb, alpha)
            self.samples[tile.tile_id] = samples
            return True
        return False

    def _films(self, tile: Tile, counts: list[int]) -> Iterator[tuple[NDArray[np.float64], int]]:
        """Those of the films that are still there and whole."""
        key, tile_id = self._plan.sample_key, tile.tile_id
        for samples in counts:
            try:
                data, _ = self._store.get(layout.film(key, tile_id, samples))
                yield decode_film(data, sample_key=key, tile_id=tile_id, shape=(tile.height, tile.width))
            except (NotFound, FilmInvalid):  # pruned since it was listed, or damaged
                continue


def checkered(rows: int, columns: int, channels: int) -> Pixels:
    """(rows, columns, channels); a fourth channel is opaque."""
    squares = np.add.outer(np.arange(rows) // CHECK, np.arange(columns) // CHECK) % 2
    pixels = np.full((rows, columns, channels), 255, np.uint8)
    pixels[..., :3] = np.where(squares, LIGHT, DARK)[..., None]
    return pixels
