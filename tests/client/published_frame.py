"""A published frame, as finalizing leaves it in a store."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from contracts import (
    FilmRecord,
    FrameRequest,
    ImageRecord,
    Manifest,
    Publication,
    PublishedFrame,
    RunCounts,
    SceneBundle,
)
from store import Store, layout
from store.blobs import digest
from tracer.images import ExrWriter

WIDTH, HEIGHT = 6, 4
Publish = Callable[[Store, FrameRequest], Manifest]


def publish_frame(store: Store, request: FrameRequest, folder: Path) -> Manifest:
    exr = folder / f"{request.job_id}.exr"
    ramp = np.linspace(0, 2, WIDTH * HEIGHT, dtype=np.float32).reshape(HEIGHT, WIDTH)
    with ExrWriter(exr, WIDTH, HEIGHT, {}) as writer:
        writer.write_rows(
            {"R": ramp, "G": ramp / np.float32(2), "B": ramp / np.float32(4), "A": np.ones_like(ramp)}
        )
    key = layout.image(request.job_id, "run/1/1", "frame.exr")
    sha256, size = digest(exr)
    if store.stat(key) is None:
        store.put_new(key, exr)
    sample_key = request.sample_key("engine")
    film = FilmRecord(
        tile_id="x0000y0000w0006h0004",
        key=layout.film(sample_key, "x0000y0000w0006h0004", request.samples_per_pixel),
        sha256="f" * 64,
        samples=request.samples_per_pixel,
    )
    target = WIDTH * HEIGHT * request.samples_per_pixel
    manifest = Manifest(
        frame=PublishedFrame(
            idempotency_key=request.idempotency_key,
            job_id=request.job_id,
            sample_key=sample_key,
            engine="engine",
            scene=request.scene,
            bundle=SceneBundle(entry=request.scene.entry, files=()),
            scene_hash="3" * 64,
            request=request,
            width=WIDTH,
            height=HEIGHT,
            tile_size=16,
            film_sha256="2" * 64,
            nonfinite_samples=0,
            images=(ImageRecord(name="frame.exr", key=key, sha256=sha256, size=size),),
            films=(film,),
        ),
        publication=Publication(
            attempt_id="run/1/1",
            worker="w",
            requested_at=datetime(2026, 1, 1, tzinfo=UTC),
            created_at=datetime(2026, 1, 1, tzinfo=UTC),
            counts=RunCounts(
                tiles=1, samples_target=target, samples_rendered=target - 24, samples_resumed=24, attempts=3
            ),
        ),
    )
    if store.stat(layout.manifest(request.job_id)) is None:
        store.put_new(layout.manifest(request.job_id), manifest.encode())
    return manifest
