"""Discarding a frame, and dead letters, in a real store."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from temporalio.testing import ActivityEnvironment

from activities.records import RecordActivities
from contracts import (
    DeadLetter,
    ErrorCode,
    Failure,
    FramePlan,
    ImageRecord,
    Manifest,
    Publication,
    PublishedFrame,
    RunCounts,
    SceneBundle,
)
from store import LocalStore, layout
from tests.test_contracts import request

TILE = "x0000y0000w0016h0016"
OTHER = "b" * 64


def plan() -> FramePlan:
    asked = request()
    return FramePlan(
        sample_key=asked.sample_key("e"),
        engine="e",
        request=asked,
        scene_hash="3" * 64,
        width=16,
        height=16,
        tile_size=16,
    )


def publish(store: LocalStore, samples: int) -> None:
    asked = request(samples_per_pixel=samples)
    frame = PublishedFrame(
        idempotency_key=asked.idempotency_key,
        job_id=asked.job_id,
        sample_key=asked.sample_key("e"),
        engine="e",
        scene=asked.scene,
        bundle=SceneBundle(entry="s.glb", files=()),
        scene_hash="3" * 64,
        request=asked,
        width=16,
        height=16,
        tile_size=16,
        film_sha256="4" * 64,
        nonfinite_samples=0,
        images=(ImageRecord(name="frame.exr", key="i", sha256="5" * 64, size=1),),
        films=(),
    )
    now = datetime.now(UTC)
    publication = Publication(
        attempt_id="a", worker="w", requested_at=now, created_at=now, counts=RunCounts()
    )
    manifest = Manifest(frame=frame, publication=publication)
    store.put_new(layout.manifest(asked.job_id), manifest.encode())


def with_films(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path)
    for samples in (4, 16, 40):
        store.put_new(layout.film(plan().sample_key, TILE, samples), b"film")
    store.put_new(layout.film(OTHER, TILE, 4), b"another frame's")
    store.put_new(layout.plan(plan().sample_key), b"plan")
    return store


def films(store: LocalStore) -> list[int | None]:
    return [layout.film_samples(blob.key) for blob in store.list(layout.films(plan().sample_key))]


def test_discarding_removes_what_the_frame_made_and_nothing_else(tmp_path: Path) -> None:
    store = with_films(tmp_path)
    ActivityEnvironment().run(RecordActivities(store, "w").discard_frame, plan())
    assert films(store) == []
    assert store.stat(layout.plan(plan().sample_key)) is not None  # others may be rendering by it
    assert store.stat(layout.film(OTHER, TILE, 4)) is not None


def test_discarding_spares_what_a_published_frame_is_made_of(tmp_path: Path) -> None:
    store = with_films(tmp_path)
    publish(store, samples=16)
    ActivityEnvironment().run(RecordActivities(store, "w").discard_frame, plan())
    assert films(store) == [16]
    assert store.stat(layout.plan(plan().sample_key)) is not None


def test_a_dead_letter_is_replaced_and_removed(tmp_path: Path) -> None:
    store, records = LocalStore(tmp_path), RecordActivities(LocalStore(tmp_path), "w")
    for message in ("first", "second"):
        failure = Failure(code=ErrorCode.TILE_POISONOUS, message=message, at=datetime.now(UTC))
        letter = DeadLetter(
            job_id=request().job_id, request=request(), failures=(failure,), created_at=datetime.now(UTC)
        )
        ActivityEnvironment().run(records.record_dead_letter, letter)
    data, _ = store.get(layout.dead_letter(request().job_id))
    assert DeadLetter.model_validate_json(data).failures[0].message == "second"
    ActivityEnvironment().run(records.remove_dead_letter, letter)
    ActivityEnvironment().run(records.remove_dead_letter, letter)  # twice is once
    assert store.stat(layout.dead_letter(request().job_id)) is None
