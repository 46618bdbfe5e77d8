"""A scene of a few files, and a published frame."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

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
from store import LocalStore, Store, layout
from store.blobs import digest
from tracer.images import ExrWriter

WIDTH, HEIGHT = 6, 4
Publish = Callable[[Store, FrameRequest], Manifest]


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    """An OBJ with a material library and a picture, in a folder with a name that people have."""
    folder = tmp_path / "a scene – ü 🎬"
    folder.mkdir()
    (folder / "tri angle.obj").write_text(
        "mtllib colours.mtl\nusemtl red\nv 0 0 0\nv 1 0 0\nv 0 1 0\nvt 0 0\nf 1/1 2/1 3/1\n"
    )
    (folder / "colours.mtl").write_text("newmtl red\nKd 1 0 0\nmap_Kd wood grain.png\n")
    (folder / "wood grain.png").write_bytes(b"a picture, as far as the client is concerned")
    return folder / "tri angle.obj"


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


@pytest.fixture
def publish(tmp_path: Path) -> Publish:
    """Puts a frame's picture and manifest into a store, as finalizing does."""
    return lambda store, request: publish_frame(store, request, tmp_path)


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
