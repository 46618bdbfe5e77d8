"""finalize_frame: merge the films band by band, prove the picture, publish it by one create-only write."""

from __future__ import annotations

import hashlib
import logging
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from temporalio import activity

from activities.attempt import Stop, beat_step
from activities.errors import Refused, coded_errors
from activities.merge import MergedFrame, MissingTiles, merge
from activities.scratch import scratch_folder
from contracts import (
    ErrorCode,
    FilmRecord,
    FinalizeOutcome,
    FinalizeTask,
    FrameResult,
    ImageRecord,
    Manifest,
    Publication,
    PublishedFrame,
    SceneBundle,
    Tile,
    TileRecord,
)
from store import NotFound, Store, films, layout
from store.base import Progress
from store.lease import acquire
from store.publish import publish, put_verified
from telemetry.attempts import attempt_id as id_of_attempt
from telemetry.metrics import UNMEASURED, Metrics
from telemetry.traces import span
from tracer.errors import FilmInvalid
from tracer.film import decode_film
from tracer.images import verify_exr, verify_png
from workflows.tiling import from_ranges, tile_at, tile_count

LEASE_SECONDS = 15.0
"""How long a finalizer that died keeps others waiting at most. Longer than the heartbeat timeout, so that
one that is only slow is not overtaken while Temporal still believes in it."""
NONFINITE_SHARE = 1e-4
"""More non-finite samples than this share of the frame's make it a failure, not a picture."""

log = logging.getLogger("tessera.finalize")


class FinalizeActivities:
    def __init__(self, store: Store, worker: str, metrics: Metrics = UNMEASURED) -> None:
        self._store = store
        self._worker = worker
        self._metrics = metrics

    @activity.defn(no_thread_cancel_exception=True)
    def finalize_frame(self, task: FinalizeTask) -> FinalizeOutcome:
        began, outcome = time.monotonic(), "failed"
        try:
            with coded_errors(self._worker):
                try:
                    beat_step("starting")
                    result = self._finalize(task)
                    outcome = "published"
                    return FinalizeOutcome(result=result)
                except MissingTiles as error:
                    outcome = "films_missing"
                    log.warning("films missing, rendering them again", extra={"tiles": error.numbers[:20]})
                    return FinalizeOutcome(missing=tuple(error.numbers))
                except Stop:
                    outcome = "stopped"
                    raise
        finally:
            self._metrics.finalize_seconds.record(time.monotonic() - began, {"outcome": outcome})

    def _finalize(self, task: FinalizeTask) -> FrameResult:
        attempt_id = id_of_attempt(activity.info())
        with (
            span("lease"),
            acquire(
                self._store, layout.lease(task.job_id), attempt_id, LEASE_SECONDS, tell=self._lease_event
            ) as lease,
            scratch_folder() as folder,
        ):

            def progress(step: str) -> None:
                beat_step(step)
                lease.check()

            finished = FinishedFilms(self._store, task, progress)
            with span("merge"):
                merged = merge(task.plan, task.request, folder, finished.get)
                check_nonfinite(task, merged)
                verify_exr(merged.exr, task.plan.width, task.plan.height, progress)
                verify_png(merged.png)
            with span("upload"):
                images = tuple(self._upload(path, task.job_id, attempt_id, progress) for path in merged[:2])
            frame = published_frame(self._store, task, merged, images, tuple(finished.records))
            publication = Publication(
                attempt_id=attempt_id,
                worker=self._worker,
                fence=lease.fence,
                requested_at=task.created_at,
                created_at=datetime.now(UTC),
                counts=task.counts,
                tiles=tile_records(task),
            )
            progress("publishing")
            with span("publish"):
                return self._publish(Manifest(frame=frame, publication=publication))

    def _publish(self, manifest: Manifest) -> FrameResult:
        winner = publish_manifest(self._store, manifest)
        if winner.publication != manifest.publication:
            self._metrics.duplicates.add(1, {"kind": "manifest"})
            log.info("published already", extra={"by": winner.publication.attempt_id})
        else:
            log.info("published", extra={"fence": manifest.publication.fence})
        return result_of(winner)

    def _lease_event(self, event: str, fence: int) -> None:
        self._metrics.leases.add(1, {"event": event})
        level = logging.WARNING if event in ("lost", "unrenewed") else logging.INFO
        log.log(level, "lease %s", event, extra={"fence": fence})

    def _upload(self, path: Path, job_id: str, attempt_id: str, progress: Progress) -> ImageRecord:
        progress(f"storing {path.name}")
        key = layout.image(job_id, attempt_id, path.name)
        sha256, size = put_verified(self._store, key, path, progress)
        return ImageRecord(name=path.name, key=key, sha256=sha256, size=size)


class FinishedFilms:
    """The films that a frame is merged from. Damaged ones are set aside."""

    def __init__(self, store: Store, task: FinalizeTask, progress: Progress) -> None:
        self._store = store
        self._sample_key = task.plan.sample_key
        self._samples = task.request.samples_per_pixel
        self._progress = progress
        self.records: list[FilmRecord] = []

    def get(self, tile: Tile) -> NDArray[np.float64] | None:
        """A tile's finished film; None where it is missing or damaged."""
        self._progress(f"merging {tile.tile_id}")
        key = layout.film(self._sample_key, tile.tile_id, self._samples)
        try:
            data, found = self._store.get(key)
        except NotFound:
            return None
        try:
            film, samples = decode_film(
                data, sample_key=self._sample_key, tile_id=tile.tile_id, shape=(tile.height, tile.width)
            )
        except FilmInvalid as error:
            log.warning("damaged film set aside", extra={"film": key, "error": str(error)})
            films.set_aside(self._store, key, found.version)
            return None
        if samples != self._samples:
            raise Refused(ErrorCode.INTERNAL, f"{key} holds {samples} samples, not what its name says")
        sha256 = hashlib.sha256(data).hexdigest()
        self.records.append(FilmRecord(tile_id=tile.tile_id, key=key, sha256=sha256, samples=samples))
        return film


def check_nonfinite(task: FinalizeTask, merged: MergedFrame) -> None:
    if merged.nonfinite_pixel is None:
        return
    x, y = merged.nonfinite_pixel
    per_row = -(-task.plan.width // task.plan.tile_size)
    tile = tile_at(task.plan, y // task.plan.tile_size * per_row + x // task.plan.tile_size)
    total = task.plan.width * task.plan.height * task.request.samples_per_pixel
    found = (
        f"{merged.nonfinite} of {total} samples were NaN or infinite, first in pixel ({x}, {y}); "
        f"`tessera render-tile {task.job_id} {tile.tile_id}` names the sample"
    )
    if merged.nonfinite > NONFINITE_SHARE * total:
        raise Refused(
            ErrorCode.RENDER_NONFINITE,
            f"{found}: more than {NONFINITE_SHARE:g} of all, the scene has values that no picture can hold",
        )
    log.warning("non-finite samples, counted as black", extra={"found": found})


def tile_records(task: FinalizeTask) -> tuple[TileRecord, ...]:
    """Every tile with its attempts and its worker."""
    worker_of = {number: name for name, tiles in task.workers.items() for number in from_ranges(tiles)}
    return tuple(
        TileRecord(
            tile_id=tile_at(task.plan, number).tile_id,
            attempts=task.attempts.get(number, 1),
            worker=worker_of.get(number, ""),
        )
        for number in range(tile_count(task.plan))
    )


def published_frame(
    store: Store,
    task: FinalizeTask,
    merged: MergedFrame,
    images: tuple[ImageRecord, ...],
    films: tuple[FilmRecord, ...],
) -> PublishedFrame:
    plan = task.plan
    bundle, _ = store.get(layout.bundle(task.request.scene.version))
    return PublishedFrame(
        idempotency_key=task.request.idempotency_key,
        job_id=task.job_id,
        sample_key=plan.sample_key,
        engine=plan.engine,
        scene=task.request.scene,
        bundle=SceneBundle.model_validate_json(bundle),
        scene_hash=plan.scene_hash,
        request=task.request,
        width=plan.width,
        height=plan.height,
        tile_size=plan.tile_size,
        film_sha256=merged.film_sha256,
        nonfinite_samples=merged.nonfinite,
        images=images,
        films=films,
    )


def publish_manifest(store: Store, manifest: Manifest) -> Manifest:
    """The commit. A manifest that is there already and says the same pictures is the result; one that
    says others is output_conflict, and is never overwritten."""

    def agrees(existing: bytes) -> bool:
        return Manifest.decode(existing).agrees_with(manifest)

    ours = manifest.encode()
    winner = publish(store, manifest.frame.job_id, ours, agrees)
    published = Manifest.decode(winner)
    if winner != ours:
        log.warning(
            "published by another attempt already",
            extra={"by": published.publication.attempt_id, "fence": published.publication.fence},
        )
    return published


def result_of(manifest: Manifest) -> FrameResult:
    image = manifest.frame.images[0]
    return FrameResult(
        manifest=layout.manifest(manifest.frame.job_id),
        image=image.key,
        sha256=image.sha256,
        film_sha256=manifest.frame.film_sha256,
    )
