"""How far a frame is: the films in the store and, beyond them, what running tiles report.

A tile that a pause, a cancel or a leaving worker put back reports nothing until it begins again, but its
film is there: so progress goes back only where work is truly lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from client.pending import PendingTile
from client.published import damaged, recorded_request, stored_tiles, tile_area
from client.tilemap import TileMap
from contracts import FramePlan, FrameRequest, JobStatus, TileCounts
from store import NotFound, Store, layout
from tracer import engine
from workflows.tiling import tile_count

LIST_SECONDS = 1.0
LIST_SHARE = 20
"""A watch lists the films at most once in LIST_SECONDS, or LIST_SHARE times as long as the listing took:
with thousands of tiles, or a store far away, watching must not become the store's main work."""


class Listing(NamedTuple):
    samples: dict[str, int]
    """Samples a pixel of each tile's newest film, by tile_id."""
    valid_until: float


class Progress:
    """Of one job, for one command. What it has read of the store it remembers while that is new enough."""

    def __init__(self, store: Store, job_id: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._job_id = job_id
        self._clock = clock
        self._plan: FramePlan | None = None
        self._request: FrameRequest | None = None
        self._listing: Listing | None = None
        self._listed_key = ""
        self._shown = 0
        self.in_flight: list[PendingTile] = []
        """The tiles that were with workers, or waited for one, at the last look."""

    def complete(self, status: JobStatus, tiles: Iterable[PendingTile] = ()) -> JobStatus:
        """The status with its progress and, where the workflow did not say them, the counts of its plan.

        tiles: the activities in flight, as they were before this call. Raises StoreError, Unreachable.
        """
        is_answer = status.input_hash is not None
        status = self._with_plan(status)
        self.in_flight = list(tiles)
        if not status.input_hash or not status.samples.target:
            return status
        done = min(self._done(status, self.in_flight), status.samples.target)
        updates: dict[str, Any] = {"progress": done / status.samples.target}
        if not is_answer and self._listing is not None:
            updates["tiles"] = self._stored_counts(status, self._listing.samples)
        return status.model_copy(update=updates)

    def of_ended(self, status: JobStatus) -> JobStatus:
        """The same for a run that has ended: what a later one would go on from. The ended one's own counts
        say nothing of that, for it may have discarded its films."""
        status = self._with_plan(status)
        if not status.input_hash or not status.samples.target:
            return status
        stored = self._list(status.input_hash).samples
        return status.model_copy(
            update={
                "progress": min(1.0, _sum(stored, ()) / status.samples.target),
                "tiles": self._stored_counts(status, stored),
            }
        )

    def tile_map(self, status: JobStatus) -> TileMap | None:
        """Where each tile stands, by the last look and the newest listing; None without a plan."""
        plan = self.plan(status)
        if plan is None or self._listing is None or self._listed_key != status.input_hash:
            return None
        samples = self._samples_target()
        return TileMap(plan, samples, self._listing.samples, self.in_flight, status.dead_tiles)

    def plan(self, status: JobStatus) -> FramePlan | None:
        """The plan by which the job is rendered; None before it is prepared."""
        if status.input_hash and (self._plan is None or self._plan.sample_key != status.input_hash):
            self._plan = self._read_plan(status.input_hash)
        return self._plan

    def _stored_counts(self, status: JobStatus, stored: dict[str, int]) -> TileCounts:
        rendered = sum(samples == self._samples_target() for samples in stored.values())
        return status.tiles.model_copy(update={"rendered": rendered, "running": 0})

    def _done(self, status: JobStatus, tiles: list[PendingTile]) -> int:
        """Samples (pixels times samples a pixel) that are in the store or with running tiles. Less than last
        time only if a fresh listing says so."""
        counted = status.samples.rendered + status.samples.resumed
        reported = counted + sum(tile.done for tile in tiles)
        key = str(status.input_hash)
        is_new = self._listing is None or key != self._listed_key or self._clock() > self._listing.valid_until
        listing = self._list(key) if is_new or self._listing is None else self._listing
        done = max(reported, _sum(listing.samples, tiles))
        if is_new or done > self._shown:
            self._shown = done
        return self._shown

    def _list(self, key: str) -> Listing:
        began = self._clock()
        samples = stored_tiles(self._store, key, self._samples_target())
        ended = self._clock()
        self._listing = Listing(samples, ended + max(LIST_SECONDS, LIST_SHARE * (ended - began)))
        self._listed_key = key
        return self._listing

    def _samples_target(self) -> int:
        """Samples a pixel that the job was asked for; none where its record is gone."""
        request = self._recorded()
        return request.samples_per_pixel if request else 0

    def _recorded(self) -> FrameRequest | None:
        self._request = self._request or recorded_request(self._store, self._job_id)
        return self._request

    def _with_plan(self, status: JobStatus) -> JobStatus:
        """Before the frame is prepared, and where no control worker answers, the workflow names no plan. A
        frame that was rendered before has one all the same, and goes on from its films."""
        if status.input_hash:
            return status
        plan = self._plan or self._stored_plan()
        self._plan = plan
        if plan is None:
            return status
        tiles = status.tiles.model_copy(update={"total": tile_count(plan)})
        target = plan.width * plan.height * self._samples_target()
        samples = status.samples.model_copy(update={"target": target})
        return status.model_copy(
            update={
                "input_hash": plan.sample_key,
                "tiles": tiles,
                "samples": samples,
                "progress_pointer": layout.films(plan.sample_key),
            }
        )

    def _stored_plan(self) -> FramePlan | None:
        """The plan of this program's engine: one that the workers' engine, if it is another, does not use."""
        request = self._recorded()
        if request is None:
            return None
        return self._read_plan(request.sample_key(engine.fingerprint()))

    def _read_plan(self, sample_key: str) -> FramePlan | None:
        place = layout.plan(sample_key)
        try:
            return FramePlan.model_validate_json(self._store.get(place)[0])
        except NotFound:
            return None
        except ValueError as error:
            raise damaged(place, error) from error


def _sum(stored: dict[str, int], tiles: Iterable[PendingTile]) -> int:
    beyond = {tile.tile_id: tile.samples for tile in tiles}
    newest = stored | {tile_id: max(n, stored.get(tile_id, 0)) for tile_id, n in beyond.items()}
    return sum(samples * tile_area(tile_id) for tile_id, samples in newest.items())
