"""A whole picture by our tracer, on some threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tracer.build import PreparedScene
from tracer.film import Film, new_film
from tracer.render import render_samples
from tracer.scene import PixelRect

TILE = 64


def render_film(scene: PreparedScene, spp: int, threads: int) -> Film:
    """All samples of a picture, tile by tile."""
    film = new_film(scene.width, scene.height)

    def render_tile(tile: PixelRect) -> None:
        part = new_film(tile.width, tile.height)
        render_samples(scene, part, tile, 0, spp)
        film[tile.y : tile.y + tile.height, tile.x : tile.x + tile.width] = part

    tiles = [
        PixelRect(x, y, min(TILE, scene.width - x), min(TILE, scene.height - y))
        for y in range(0, scene.height, TILE)
        for x in range(0, scene.width, TILE)
    ]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(render_tile, tiles))
    return film
