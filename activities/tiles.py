"""render_tile: from the newest valid film to the one with all samples, in slices that can be stopped."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import structlog
from numpy.typing import NDArray
from temporalio import activity
from temporalio.exceptions import CancelledError

from activities.attempt import Beat, Cancelled, Stop, WorkerLeaving, beat, past_attempts, told_before
from activities.errors import Refused, coded_errors
from activities.pace import Pace
from activities.scenes import SceneCache
from contracts import ErrorCode, FramePlan, Tile, TileOutcome, TileResult, TileTask
from store import NotFound, Store, StoreFull, StoreUnavailable, layout
from store.films import newest_film, put_film
from telemetry.metrics import UNMEASURED, Metrics, timed
from telemetry.traces import span
from tracer.build import PreparedScene
from tracer.film import decode_film, encode_film, new_film
from tracer.render import render_samples
from tracer.scene import PixelRect

SLICE_SECONDS = 0.2
"""Aim of one kernel call. A stop, a pause or a shutdown waits for the running slice, and no more."""

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0
BEAT_SECONDS = 0.5

log = logging.getLogger("tessera.tiles")

Film = NDArray[np.float64]


class TileActivities:
    """render_tile and what the workflow asks about a tile. One instance serves all slots."""

    def __init__(
        self,
        store: Store,
        scenes: SceneCache,
        checkpoint_seconds: float,
        worker: str,
        metrics: Metrics = UNMEASURED,
    ) -> None:
        self._store = store
        self._scenes = scenes
        self._metrics = metrics
        self._checkpoint_seconds = checkpoint_seconds
        self._worker = worker

    @activity.defn(no_thread_cancel_exception=True)
    def render_tile(self, task: TileTask) -> TileResult:
        names = structlog.contextvars.bound_contextvars(tile_id=task.tiles[0].tile_id)
        with names, coded_errors(self._worker):
            attempt = TileAttempt(
                self._store,
                self._scenes,
                self._checkpoint_seconds,
                task,
                beat,
                metrics=self._metrics,
                told=told_before(),
            )
            outcome, began = TileOutcome.RENDERED, time.monotonic()
            try:
                attempt.render()
            except Stop as stop:
                outcome = outcome_of(stop)
            self._metrics.tile_seconds.record(time.monotonic() - began, {"outcome": outcome})
            log.info("tiles %s", outcome, extra={"finished": attempt.finished, "of": len(task.tiles)})
            return TileResult(
                outcome=outcome,
                finished=attempt.finished,
                resumed=attempt.resumed,
                rendered=attempt.rendered,
                past=tuple(past_attempts()),
                attempt=activity.info().attempt,
                worker=self._worker,
            )

    @activity.defn(no_thread_cancel_exception=True)
    def newest_samples(self, task: TileTask) -> int:
        """How many samples the first tile's newest valid film in the store has."""
        with coded_errors(self._worker):
            film = StoredFilm(self._store, task, task.tiles[0])
            film.load()
            return film.samples


class TileAttempt:
    """One attempt at a task's tiles. Knows nothing of Temporal: beat is told how far it is, and may raise
    Stop, which leaves `render` after what is rendered was stored."""

    def __init__(
        self,
        store: Store,
        scenes: SceneCache,
        checkpoint_seconds: float,
        task: TileTask,
        beat: Beat,
        *,
        metrics: Metrics = UNMEASURED,
        told: Mapping[str, Any] | None = None,
    ) -> None:
        """told: the last heartbeat of the attempt before this one."""
        self._store = store
        self._scenes = scenes
        self._checkpoint_seconds = checkpoint_seconds
        self._task = task
        self._beat = beat
        self._metrics = metrics
        self._films = [StoredFilm(store, task, tile, metrics, told) for tile in task.tiles]
        self.finished = 0
        """How many of the task's tiles, from the first on, are rendered."""

    @property
    def resumed(self) -> int:
        """Samples of the finished tiles that came from checkpoints."""
        return sum(film.resumed * film.tile.area for film in self._films[: self.finished])

    @property
    def rendered(self) -> int:
        """Samples that this attempt has rendered and stored."""
        return sum((film.samples - film.resumed) * film.tile.area for film in self._films)

    def render(self) -> None:
        self._beat(doing="starting")
        with self._metrics.tile_in_flight("leased"):
            scene = self._scene()
        with self._metrics.tile_in_flight("progressing"):
            for film in self._films:
                report = _reporter(self._films, self.finished, self._beat)
                render_to(film, scene, self._checkpoint_seconds, report)
                self.finished += 1

    def _scene(self) -> PreparedScene:
        key = self._task.sample_key
        try:
            data, _ = self._store.get(layout.plan(key))
        except NotFound as error:
            # Terminal: only prepare writes plans, so no retry of a tile brings it back.
            message = "the frame's plan is gone from the store; submit again"
            raise Refused(ErrorCode.ASSET_MISSING, message) from error
        plan = FramePlan.model_validate_json(data)
        scene = self._scenes.get(key, plan.request, lambda step: self._beat(doing=step))
        if scene.hash != plan.scene_hash:
            raise Refused(
                ErrorCode.INTERNAL,
                f"this worker prepared another scene ({scene.hash[:16]}) than the plan says "
                f"({plan.scene_hash[:16]}): its libraries or its processor differ from the other workers'",
            )
        return scene


def outcome_of(stop: Stop) -> TileOutcome:
    details = activity.cancellation_details()
    if isinstance(stop, Cancelled) and details is not None and (details.paused or details.reset):
        # Paused or reset in Temporal itself, which wants a failure to hold the attempt back.
        raise CancelledError("stopped by Temporal; the film is kept") from None
    return TileOutcome.YIELDED if isinstance(stop, WorkerLeaving) else TileOutcome.STOPPED


class StoredFilm:
    """One tile's film in the store: what an attempt resumes from and writes its checkpoints to."""

    def __init__(
        self,
        store: Store,
        task: TileTask,
        tile: Tile,
        metrics: Metrics = UNMEASURED,
        told: Mapping[str, Any] | None = None,
    ) -> None:
        """told: the last heartbeat of the attempt before this one, for counting what was lost with it."""
        self._store = store
        self.metrics = metrics
        self._told = told if told and told.get("tile") == tile.tile_id else {}
        self._sample_key = task.sample_key
        self.tile = tile
        self.target = task.samples
        self.samples = 0
        """Samples of the newest film that is known to be in the store."""
        self.resumed = 0
        self._own: list[int] = []
        """Sample counts of the films that this attempt has made, but for the last."""

    def load(self) -> Film:
        """The newest valid film at or below the target; an empty one where there is none."""
        found = newest_film(self._store, self._sample_key, self.tile.tile_id, self.target, self._decode)
        for bad in found.set_aside:
            log.warning("damaged film set aside", extra={"film": bad})
            self.metrics.checkpoints.add(1, {"result": "refused"})
        self.samples = self.resumed = found.samples
        lost = max(0, int(self._told.get("samples", 0)) - found.samples)
        self.metrics.samples_lost.add(lost * self.tile.area)
        if found.samples:
            self.metrics.checkpoints.add(1, {"result": "resumed"})
            self.metrics.samples_resumed.add(found.samples * self.tile.area)
            log.info("resumed", extra={"samples": found.samples, "target": self.target, "lost": lost})
        return new_film(self.tile.width, self.tile.height) if found.film is None else found.film

    def save(self, film: Film, samples: int) -> None:
        """Writes a checkpoint; equal bytes that are there already are fine."""
        tile_id = self.tile.tile_id
        with span("checkpoint", tile_id=tile_id, samples=samples), timed(self.metrics.checkpoint_seconds):
            data = encode_film(film, sample_key=self._sample_key, tile_id=tile_id, samples=samples)
            new = put_film(self._store, self._sample_key, tile_id, samples, data, self._decode)
        self.metrics.checkpoints.add(1, {"result": "written" if new else "known"})
        if not new:
            self.metrics.duplicates.add(1, {"kind": "checkpoint"})
        log.info("checkpoint", extra={"samples": samples, "target": self.target, "new": new})
        self.samples = samples
        self._prune()
        if new:
            self._own.append(samples)

    def _prune(self) -> None:
        """Removes this attempt's older checkpoints but for the one before the newest, which would be
        needed if the newest were damaged. Films that others made may be what a published frame is made
        of: they stay."""
        while len(self._own) > 1:
            self._store.delete(layout.film(self._sample_key, self.tile.tile_id, self._own.pop(0)))

    def _decode(self, data: bytes) -> tuple[Film, int]:
        shape = (self.tile.height, self.tile.width)
        return decode_film(data, sample_key=self._sample_key, tile_id=self.tile.tile_id, shape=shape)


def _reporter(films: list[StoredFilm], finished: int, beat: Beat) -> Callable[[int], None]:
    """What heartbeats say while films[finished] renders: done and target count pixels times samples over
    all tiles of the task, so that their sum over running attempts is the frame's progress, and so does
    per_second."""
    pace = Pace()
    before = sum(film.target * film.tile.area for film in films[:finished])
    target = sum(film.target * film.tile.area for film in films)
    current = films[finished]

    def report(samples: int) -> None:
        done = before + samples * current.tile.area
        beat(
            tile=current.tile.tile_id,
            samples=samples,
            stored=current.samples,
            resumed=current.resumed,
            done=done,
            target=target,
            per_second=round(pace.at(done), 1),
        )

    return report


def render_to(
    stored: StoredFilm, scene: PreparedScene, checkpoint_seconds: float, report: Callable[[int], None]
) -> None:
    """Renders until the film has its target of samples a pixel, and leaves it in the store.

    report gets the samples done before every slice and may raise Stop: what is rendered is stored before
    Stop goes on. How samples are grouped into slices cannot change the film.
    """
    tile, metrics = stored.tile, stored.metrics
    with structlog.contextvars.bound_contextvars(tile_id=tile.tile_id):
        rendering = Rendering(stored, scene, report)
        while rendering.done < stored.target:
            with (
                span("render wave", tile_id=tile.tile_id, first_sample=rendering.done),
                timed(metrics.wave_seconds),
            ):
                rendering.wave(checkpoint_seconds)
            if rendering.done < stored.target:
                _checkpoint(stored, rendering.film, rendering.done)
        if rendering.done > stored.samples:
            _store_last(stored, rendering.film, report)
        metrics.tiles.add(1, {"start": "resumed" if stored.resumed else "fresh"})


class Rendering:
    """A tile's film in memory, and how far it is. Slices are sized by how long the last one took."""

    def __init__(self, stored: StoredFilm, scene: PreparedScene, report: Callable[[int], None]) -> None:
        self._stored, self._scene, self._report = stored, scene, report
        self._rect = pixel_rect(stored.tile)
        self.film = stored.load()
        self.done = stored.samples
        self._seconds_per_sample = SLICE_SECONDS  # the first slice is one sample

    def wave(self, seconds: float) -> None:
        """Renders for at least `seconds`, or to the target. On a Stop the film is stored first."""
        stored, began = self._stored, time.monotonic()
        while True:
            try:
                self._report(self.done)
            except Stop:
                if self.done > stored.samples:
                    stored.save(self.film, self.done)
                raise
            ended = self._slice()
            if self.done >= stored.target or ended - began >= seconds:
                return

    def _slice(self) -> float:
        """One kernel call; the time at its end."""
        stored = self._stored
        count = max(1, min(stored.target - self.done, int(SLICE_SECONDS / self._seconds_per_sample)))
        began = time.monotonic()
        render_samples(self._scene, self.film, self._rect, self.done, count)
        ended = time.monotonic()
        self.done += count
        self._seconds_per_sample = max(1e-6, (ended - began) / count)
        stored.metrics.samples_rendered.add(count * stored.tile.area)
        return ended


def _store_last(stored: StoredFilm, film: Film, report: Callable[[int], None]) -> None:
    """Stores the finished film, however long the store is away or full: rendering it anew would cost more,
    and every try beats, so that nobody takes the attempt for dead. A stop gives the film up."""
    pause = FIRST_PAUSE
    while True:
        try:
            stored.save(film, stored.target)
            return
        except (StoreUnavailable, StoreFull) as error:
            log.warning("finished film not stored, trying again", extra={"error": str(error)})
            stored.metrics.checkpoints.add(1, {"result": "unstored"})
            until = time.monotonic() + pause
            while time.monotonic() < until:
                report(stored.target)
                time.sleep(min(BEAT_SECONDS, pause))
            pause = min(2 * pause, LONGEST_PAUSE)


def _checkpoint(stored: StoredFilm, film: Film, done: int) -> None:
    """A checkpoint on the way. A store that is away or full for a while costs no work: the tile goes on
    in memory and tries again at the next interval; only the last film has to arrive."""
    try:
        stored.save(film, done)
    except (StoreUnavailable, StoreFull) as error:
        log.warning("checkpoint not stored, going on in memory", extra={"error": str(error)})
        stored.metrics.checkpoints.add(1, {"result": "unstored"})


def pixel_rect(tile: Tile) -> PixelRect:
    return PixelRect(tile.x, tile.y, tile.width, tile.height)
