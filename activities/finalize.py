"""finalize_frame: merge the films band by band, prove the picture, publish it by one create-only write."""

from __future__ import annotations

import hashlib
import logging
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from temporalio import activity
from temporalio.exceptions import CancelledError

from activities.attempt import Stop, beat_step
from activities.errors import Refused, coded_errors
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
    Tile,
)
from store import NotFound, Store, films, layout
from store.lease import acquire
from store.publish import publish, put_verified
from tracer.errors import FilmInvalid
from tracer.film import CHANNELS, NONFINITE, decode_film, resolve
from tracer.images import ExrWriter, display_pixels, verify_exr, write_png
from workflows.tiling import tile_at, tile_count

LEASE_SECONDS = 15.0
"""How long a finalizer that died keeps others waiting at most. Longer than the heartbeat timeout, so that
one that is only slow is not overtaken while Temporal still believes in it."""
PREVIEW_EDGE = 4096
"""The preview of a larger picture shows every second pixel, or every third: it is for looking at, and is
held in memory whole."""
NONFINITE_SHARE = 1e-4
"""More non-finite samples than this share of the frame's make it a failure, not a picture."""

log = logging.getLogger("tessera.finalize")


class MissingTiles(Exception):
    """Films that should be there are missing or damaged; carries their tiles' numbers."""

    def __init__(self, numbers: list[int]) -> None:
        super().__init__(f"{len(numbers)} tiles have no valid film")
        self.numbers = numbers


class FinalizeActivities:
    def __init__(self, store: Store, worker: str) -> None:
        self._store = store
        self._worker = worker

    @activity.defn(no_thread_cancel_exception=True)
    def finalize_frame(self, task: FinalizeTask) -> FinalizeOutcome:
        with coded_errors(self._worker):
            try:
                beat_step("starting")
                return FinalizeOutcome(result=self._finalize(task))
            except MissingTiles as error:
                log.warning("films missing, rendering them again", extra={"tiles": error.numbers[:20]})
                return FinalizeOutcome(missing=tuple(error.numbers))
            except Stop:
                raise CancelledError("stopped before anything was published") from None

    def _finalize(self, task: FinalizeTask) -> FrameResult:
        info = activity.info()
        attempt_id = f"{info.workflow_run_id}/{info.activity_id}/{info.attempt}"
        with (
            acquire(self._store, layout.lease(task.job_id), attempt_id, LEASE_SECONDS) as lease,
            tempfile.TemporaryDirectory(prefix="tessera-finalize-") as folder,
        ):

            def progress(step: str) -> None:
                beat_step(step)
                lease.check()

            merged = MergedFrame(self._store, task, Path(folder), progress)
            images = []
            for path in (merged.exr, merged.png):
                progress(f"storing {path.name}")
                key = layout.image(task.job_id, attempt_id, path.name)
                sha256, size = put_verified(self._store, key, path, progress)
                images.append(ImageRecord(name=path.name, key=key, sha256=sha256, size=size))
            publication = Publication(
                attempt_id=attempt_id,
                worker=self._worker,
                fence=lease.fence,
                created_at=datetime.now(UTC),
                counts=task.counts,
            )
            frame = published_frame(task, merged, tuple(images))
            progress("publishing")
            return publish_manifest(self._store, Manifest(frame=frame, publication=publication))


def published_frame(
    task: FinalizeTask, merged: MergedFrame, images: tuple[ImageRecord, ...]
) -> PublishedFrame:
    plan = task.plan
    return PublishedFrame(
        idempotency_key=task.request.idempotency_key,
        job_id=task.job_id,
        sample_key=plan.sample_key,
        engine=plan.engine,
        scene=task.request.scene,
        scene_hash=plan.scene_hash,
        request=task.request,
        width=plan.width,
        height=plan.height,
        film_sha256=merged.film_sha256,
        nonfinite_samples=merged.nonfinite,
        images=images,
        films=tuple(merged.films),
    )


def publish_manifest(store: Store, manifest: Manifest) -> FrameResult:
    """The commit. A manifest that is there already and says the same pictures is the result; one that
    says others is output_conflict, and is never overwritten."""

    def agrees(existing: bytes) -> bool:
        return Manifest.model_validate_json(existing).agrees_with(manifest)

    winner = publish(store, manifest.frame.job_id, manifest.model_dump_json(indent=1).encode(), agrees)
    return result_of(Manifest.model_validate_json(winner))


def result_of(manifest: Manifest) -> FrameResult:
    image = manifest.frame.images[0]
    return FrameResult(
        manifest=layout.manifest(manifest.frame.job_id),
        image=image.key,
        sha256=image.sha256,
        film_sha256=manifest.frame.film_sha256,
    )


class MergedFrame:
    """A frame's films merged into its pictures, one row of tiles in memory at a time.

    film_sha256 is the hash of the whole frame's film in row order, without headers: the same for every
    tiling. Raises MissingTiles; Refused(render_nonfinite) past NONFINITE_SHARE.
    """

    def __init__(
        self,
        store: Store,
        task: FinalizeTask,
        folder: Path,
        progress: Callable[[str], None],
    ) -> None:
        plan = task.plan
        self._store = store
        self._plan = plan
        self._samples = task.request.samples_per_pixel
        self._progress = progress
        self.films: list[FilmRecord] = []
        self.nonfinite = 0
        self.exr, self.png = folder / "frame.exr", folder / "preview.png"
        transparent = task.request.settings.hide_environment
        step = -(-max(plan.width, plan.height) // PREVIEW_EDGE)
        rows, columns = -(-plan.height // step), -(-plan.width // step)
        preview = np.zeros((rows, columns, 4 if transparent else 3), dtype=np.uint8)
        digest = hashlib.sha256()
        attributes = {
            "tessera.job_id": task.job_id,
            "tessera.scene": task.request.scene.version,
            "tessera.seed": str(task.request.settings.seed),
            "tessera.samples": str(self._samples),
            "tessera.engine": plan.engine,
        }
        with ExrWriter(self.exr, plan.width, plan.height, attributes) as exr:
            for row, band in self._bands():
                digest.update(band.data)
                channels = resolve(band, self._samples)
                exr.write_rows(channels)
                shown = slice(-row % step, None, step)
                rgb = np.stack([channels[c][shown, ::step] for c in "RGB"], axis=-1)
                alpha = channels["A"][shown, ::step] if transparent else None
                preview[-(-row // step) :][: len(rgb)] = display_pixels(rgb, alpha)
        self.film_sha256 = digest.hexdigest()
        self._check_nonfinite()
        verify_exr(self.exr, plan.width, plan.height, progress)
        write_png(self.png, preview)

    def _bands(self) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """The frame's film in bands of one row of tiles: (first row of pixels, (rows, width, CHANNELS))."""
        missing: list[int] = []
        plan, per_row = self._plan, -(-self._plan.width // self._plan.tile_size)
        for first in range(0, tile_count(plan), per_row):
            tiles = [tile_at(plan, first + column) for column in range(per_row)]
            band = np.zeros((tiles[0].height, plan.width, CHANNELS))
            for number, tile in enumerate(tiles, first):
                self._progress(f"merging {tile.tile_id}")
                film = self._film(tile)
                if film is None:
                    missing.append(number)
                else:
                    band[:, tile.x : tile.x + tile.width] = film
            self.nonfinite += int(band[..., NONFINITE].sum())
            yield tiles[0].y, band
        if missing:
            raise MissingTiles(missing)

    def _film(self, tile: Tile) -> NDArray[np.float64] | None:
        """The tile's finished film; None, and set aside, where it is not valid."""
        key = layout.film(self._plan.sample_key, tile.tile_id, self._samples)
        try:
            data, found = self._store.get(key)
        except NotFound:
            return None
        try:
            film, samples = decode_film(
                data,
                sample_key=self._plan.sample_key,
                tile_id=tile.tile_id,
                shape=(tile.height, tile.width),
            )
        except FilmInvalid as error:
            log.warning("damaged film set aside", extra={"film": key, "error": str(error)})
            films.set_aside(self._store, key, found.version)
            return None
        if samples != self._samples:
            raise Refused(ErrorCode.INTERNAL, f"{key} holds {samples} samples, not what its name says")
        self.films.append(
            FilmRecord(
                tile_id=tile.tile_id, key=key, sha256=hashlib.sha256(data).hexdigest(), samples=samples
            )
        )
        return film

    def _check_nonfinite(self) -> None:
        total = self._plan.width * self._plan.height * self._samples
        if self.nonfinite > NONFINITE_SHARE * total:
            raise Refused(
                ErrorCode.RENDER_NONFINITE,
                f"{self.nonfinite} of {total} samples were NaN or infinite, more than {NONFINITE_SHARE:g} "
                "of them: the scene has values that no picture can hold",
            )
