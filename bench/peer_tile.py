"""What the other schedulers run: one tile of a frame that Tessera has planned, rendered in one go.

The same kernels on the same scene and the same film in a store at the end. Without heartbeats, checkpoints
or any other care for what may go wrong meanwhile.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import NamedTuple

from activities.scenes import prepare_scene
from activities.tiles import pixel_rect
from contracts import FramePlan
from store import Store, layout, open_store
from tracer.build import PreparedScene
from tracer.film import encode_film, new_film
from tracer.render import render_samples, warm
from workflows.tiling import tile_at, tile_count

STORE, FILMS = "BENCH_STORE", "BENCH_FILMS"
"""Environment variables: the store with plan and bundle, and where the films go."""


class Peer(NamedTuple):
    plan: FramePlan
    scene: PreparedScene
    films: Store


@lru_cache(maxsize=1)
def frame(sample_key: str) -> Peer:
    """The frame of this process, loaded once."""
    store = open_store(os.environ[STORE])
    plan = FramePlan.model_validate_json(store.get(layout.plan(sample_key))[0])
    scene = prepare_scene(store, plan.request, lambda step: None)
    return Peer(plan, scene, open_store(os.environ[FILMS]))


def render_peer_tile(sample_key: str, number: int) -> int:
    """Renders and stores a tile; number -1 only makes the process ready."""
    if number < 0:
        warm()
        return number
    plan, scene, films = frame(sample_key)
    tile, samples = tile_at(plan, number), plan.request.samples_per_pixel
    film = new_film(tile.width, tile.height)
    render_samples(scene, film, pixel_rect(tile), 0, samples)
    data = encode_film(film, sample_key=sample_key, tile_id=tile.tile_id, samples=samples)
    films.put_new(layout.film(sample_key, tile.tile_id, samples), data)
    return number


def tiles_of(sample_key: str) -> int:
    store = open_store(os.environ[STORE])
    return tile_count(FramePlan.model_validate_json(store.get(layout.plan(sample_key))[0]))
