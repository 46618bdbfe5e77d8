"""Audit of the work: what was rendered again, and what a kill can lose, in samples.

What a worker has in memory when it is killed cannot be seen from outside. But every heartbeat says how many
samples its tile has and how many of them are in the store: the difference is what a kill at that moment
would lose, and the run sees some thousand such moments. What the next attempt really began with is in its
own heartbeats.
"""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from activities.tiles import SLICE_SECONDS
from contracts import Tile
from store import Store, layout
from tests.chaos.history import COMPLETED
from tests.chaos.run import Evidence
from tests.chaos.watch import Beat

if TYPE_CHECKING:
    from tests.chaos.audit import Row

MARGIN = 2.0
"""How much faster a tile may be at its best moment than it was while its reference was rendered."""
GRAIN = timedelta(seconds=2)
"""S3 tells times in whole seconds."""
UNSTORED = timedelta(seconds=30)
"""So long after a checkpoint that could not be stored, more than usual may be in memory: by design a tile
goes on rendering while the store is away or full."""


def not_again(evidence: Evidence, store: Store, row: Row) -> Row:
    """An activity that started when films were finished already takes them as they are."""
    begun = tiles_taken = 0
    for order in evidence.orders:
        finished = {
            blob.key.split("/")[2]: blob.modified
            for blob in store.list(layout.films(order.reference.plan.sample_key))
            if layout.film_samples(blob.key) == order.frame.samples and blob.key not in evidence.damaged
        }
        for step in evidence.histories[order.job_id][0].steps:
            if step.name != "render_tile" or step.outcome != COMPLETED or step.started is None:
                continue
            tiles = [Tile.model_validate(tile) for tile in step.task["tiles"]][: step.result["finished"]]
            ready = [t for t in tiles if t.tile_id in finished and finished[t.tile_id] + GRAIN < step.started]
            if ready:
                begun, tiles_taken = begun + 1, tiles_taken + len(ready)
                least = sum(tile.area for tile in ready) * order.frame.samples
                found = step.result["resumed"]
                row.require(found >= least, f"{order.job_id} {step.activity_id}: {found} resumed of {least}")
    row.figure = f"{begun} activities began after their film was finished, all {tiles_taken} tiles were taken"
    return row


def at_risk(evidence: Evidence, row: Row) -> Row:
    troubles, bounds = Troubles(evidence.farm.folder), bounds_of(evidence)
    worst, seen, excused = 0.0, 0, 0
    for beat in evidence.beats:
        share = (beat.samples - beat.stored) / bounds[beat.job_id, beat.tile]
        if share > 1 and troubles.before(beat):
            excused += 1
            continue
        seen, worst = seen + 1, max(worst, share)
        row.require(share <= 1, f"{beat}: {share:.2f} of the bound is not stored")
    row.figure = f"{seen} heartbeats, worst {100 * worst:.0f} % of the bound"
    row.figure += f"; {excused} more while the store took nothing" if excused else ""
    return row


def lost(evidence: Evidence, row: Row) -> Row:
    """The samples of a tile's last heartbeat in one attempt against those that the next attempt found."""
    troubles, bounds = Troubles(evidence.farm.folder), bounds_of(evidence)
    of_tile: defaultdict[tuple[str, str], list[Beat]] = defaultdict(list)
    for beat in evidence.beats:
        of_tile[beat.job_id, beat.tile].append(beat)
    cut, samples, worst, excused = 0, 0, 0.0, 0
    damaged = {tuple(key.split("/")[1:3]) for key in evidence.damaged}
    for order in evidence.orders:
        sample_key = order.reference.plan.sample_key
        for tile in order.reference.tiles:
            for last, first in pairwise(of_tile[order.job_id, tile.tile_id]):
                if (last.activity_id, last.attempt) == (first.activity_id, first.attempt):
                    continue
                missing = max(0, last.samples - first.resumed)
                share = missing / bounds[order.job_id, tile.tile_id]
                if share > 1 and (troubles.before(last) or (sample_key, tile.tile_id) in damaged):
                    excused += 1
                    continue
                cut, samples, worst = cut + 1, samples + missing * tile.area, max(worst, share)
                row.require(share <= 1, f"{order.job_id}: {last} and then {first}")
    row.figure = f"{cut} attempts followed by another, {samples} samples lost, worst {100 * worst:.0f} %"
    row.figure += f"; {excused} more with a damaged film or an absent store" if excused else ""
    return row


def bounds_of(evidence: Evidence) -> dict[tuple[str, str], float]:
    """By job and tile: samples a pixel of one checkpoint interval and one slice."""
    seconds = float(evidence.farm.env["TESSERA_CHECKPOINT_SECONDS"]) + SLICE_SECONDS
    return {
        (order.job_id, tile): MARGIN * seconds * rate
        for order in evidence.orders
        for tile, rate in order.reference.rate.items()
    }


class Troubles:
    """When which worker could not store a film, by its own log."""

    def __init__(self, folder: Path) -> None:
        self._times: defaultdict[int, list[datetime]] = defaultdict(list)
        for log in folder.glob("tiles-*.log"):
            for line in log.read_text(errors="replace").splitlines():
                if "not stored" in line:
                    told = json.loads(line)
                    self._times[self._pid(log)].append(datetime.fromisoformat(told["timestamp"]))

    @staticmethod
    def _pid(log: Path) -> int:
        return int(log.with_suffix(".pid").read_text())

    def before(self, beat: Beat) -> bool:
        times = self._times[int(beat.worker.split(":")[1])]
        return any(timedelta(0) <= beat.at - time <= UNSTORED for time in times)
