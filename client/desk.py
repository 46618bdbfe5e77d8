"""A tile rendered in this process, without Temporal: to compare with a film, or to look into a failure."""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING

from client.errors import BadInput
from client.published import damaged
from contracts import ErrorCode, FramePlan, FrameRequest, Tile
from store import NotFound, Store, layout
from store.base import Progress

if TYPE_CHECKING:
    from client.verify import Verification
    from tracer.build import PreparedScene

SLICE = 4
"""Samples between two reports of progress."""


def find_plan(store: Store, request: FrameRequest) -> FramePlan | None:
    """The plan by which the request's frame is rendered: this engine's, or else another one's."""
    from tracer import engine

    mine = layout.plan(request.sample_key(engine.fingerprint()))
    keys = [mine, *(stat.key for stat in store.list(layout.plans()) if stat.key != mine)]
    for key in keys:
        try:
            data, _ = store.get(key)
            plan = FramePlan.model_validate_json(data)
        except NotFound:
            continue
        except ValueError as error:
            raise damaged(key, error) from error
        if plan.sample_key == request.sample_key(plan.engine):
            return plan
    return None


def prepared(store: Store, plan: FramePlan, progress: Progress) -> PreparedScene:
    """The plan's scene, from the store's bundle. Raises BadInput where this is not the engine of the plan."""
    from activities.scenes import prepare_scene
    from tracer import engine

    if engine.fingerprint() != plan.engine:
        raise BadInput(
            f"the frame was rendered by engine {plan.engine}, and this is engine {engine.fingerprint()}: "
            "run the version of Tessera that rendered it",
            ErrorCode.SETTINGS_INVALID,
        )
    scene = prepare_scene(store, plan.request, progress)
    if scene.hash != plan.scene_hash:
        raise BadInput(
            f"this machine prepares another scene ({scene.hash[:16]}) than the plan says "
            f"({plan.scene_hash[:16]}): its libraries or its processor differ",
            ErrorCode.NONDETERMINISTIC,
        )
    return scene


def render_film(scene: PreparedScene, plan: FramePlan, tile: Tile, samples: int, progress: Progress) -> bytes:
    """The tile's encoded film, rendered from its first sample on."""
    from tracer.film import encode_film, new_film
    from tracer.render import render_samples
    from tracer.scene import PixelRect

    film = new_film(tile.width, tile.height)
    for first in range(0, samples, SLICE):
        progress(f"{tile.tile_id} {first} of {samples} samples")
        rect = PixelRect(tile.x, tile.y, tile.width, tile.height)
        render_samples(scene, film, rect, first, min(SLICE, samples - first))
    return encode_film(film, sample_key=plan.sample_key, tile_id=tile.tile_id, samples=samples)


def nonfinite_sample(scene: PreparedScene, film: bytes, tile: Tile, samples: int) -> str | None:
    """Names the first sample of an encoded film that is NaN or infinite, in words; None without one."""
    import numpy as np

    from tracer.film import CHANNELS, DIGEST, NONFINITE, new_film
    from tracer.render import render_samples
    from tracer.scene import PixelRect

    size = 8 * tile.area * CHANNELS
    sums = np.frombuffer(film[-DIGEST - size : -DIGEST], "<f8").reshape(tile.height, tile.width, CHANNELS)
    bad = np.argwhere(sums[..., NONFINITE])
    if not len(bad):
        return None
    row, column = bad[0].tolist()
    pixel, rect = new_film(1, 1), PixelRect(tile.x + column, tile.y + row, 1, 1)
    for sample in range(samples):
        render_samples(scene, pixel, rect, sample, 1)
        if pixel[0, 0, NONFINITE]:
            return f"{len(bad)} pixels with non-finite samples, first ({rect.x}, {rect.y}), sample {sample}"
    raise AssertionError("a sample was not finite and, rendered again, is")


def check_rendering(store: Store, verification: Verification, count: int, progress: Progress) -> None:
    """Renders some tiles of a verified frame again, chosen at random, and compares the bytes."""
    from client.verify import plan_of
    from workflows.tiling import tile_at, tile_count

    frame = verification.frame
    if frame is None:
        return
    plan = plan_of(frame)
    scene = prepared(store, plan, progress)
    sha256_of = {record.tile_id: record.sha256 for record in frame.films}
    numbers = random.sample(range(tile_count(plan)), min(count, tile_count(plan)))
    for number in sorted(numbers):
        tile, samples = tile_at(plan, number), frame.request.samples_per_pixel
        made = hashlib.sha256(render_film(scene, plan, tile, samples, progress)).hexdigest()
        key = layout.film(plan.sample_key, tile.tile_id, samples)
        verification.check(
            made == sha256_of.get(tile.tile_id), f"{key}: rendered again it has sha256 {made[:16]}"
        )
    verification.checked.append(f"{len(numbers)} tiles rendered again")
