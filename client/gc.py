"""Garbage collection: removes from the store what nothing running, published or young refers to.

Safe beside a busy farm. What something new begins to refer to is written again first
(store.blobs.keep_young), and everything here is removed by the version that was seen: whoever comes first
wins, and the other one knows.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TypeVar

from pydantic import BaseModel

from client.published import damaged
from contracts import FramePlan, FrameRequest, Manifest, SceneBundle, SequenceRequest
from store import BlobStat, Conflict, LocalStore, NotFound, Store, layout

Model = TypeVar("Model", bound=BaseModel)

Running = Callable[[], set[str]]
"""The ids of the frames and sequences that Temporal calls running, at this moment."""

LOOK_AGAIN = 5.0
"""Seconds after which Temporal is asked again what is running, before more films are removed."""


class Collector:
    """One collection. older_than: what is younger stays, whatever refers to it. keep_films: how long the
    films of a published frame stay, for a later render of more samples; None: for ever.

    Raises Unreachable where a manifest or a record is damaged: what it needs is not known then. StoreError.
    """

    def __init__(
        self,
        store: Store,
        running: Running,
        older_than: timedelta,
        keep_films: timedelta | None,
        dry_run: bool = False,
    ) -> None:
        self._store = store
        self._running = running
        self._horizon = store.now() - older_than
        self._films_horizon = None if keep_films is None else store.now() - keep_films
        self._dry_run = dry_run
        self.removed: Counter[str] = Counter()
        """How many of each kind."""
        self.freed = 0
        """Bytes."""
        self._looked_at = -LOOK_AGAIN
        self._live_jobs: set[str] = set()
        self._live_subjects: set[str] = set()

    def collect(self) -> None:
        # In this order: what is not running any more has its manifest in the store by now.
        self._look()
        manifests = self._manifests()
        self._sweep_films(manifests)
        named = {image.key for manifest in manifests.values() for image in manifest.frame.images}
        self._sweep("images", "images/", lambda stat: stat.key in named or self._of_live_job(stat))
        self._sweep("sequences", "sequences/", self._of_live_job)
        self._sweep("dead letters", "dead-letters/", self._of_live_job)
        # Of a job that ended long ago nobody is left who could still come with an older fence.
        self._sweep("leases", "leases/", self._of_live_job)
        self._sweep("damaged blobs", "set-aside/", lambda stat: False)
        self._sweep("probes", "probes/", lambda stat: False)
        self._sweep_scenes(manifests)
        if isinstance(self._store, LocalStore) and not self._dry_run:
            self.removed["temporary files"] += self._store.remove_leftovers()

    # --- what is alive ----------------------------------------------------------------------------

    def _jobs(self) -> dict[str, tuple[FrameRequest, BlobStat]]:
        return {
            _job_of(stat): (_load(FrameRequest, stat.key, data), stat) for data, stat in self._all("jobs/")
        }

    def _manifests(self) -> dict[str, Manifest]:
        found = {}
        for data, stat in self._all(layout.manifests()):
            try:
                found[_job_of(stat)] = Manifest.decode(data)
            except ValueError as error:
                raise damaged(stat.key, error) from error
        return found

    def _look(self) -> None:
        """Finds out which jobs are running or young, and which sequences of samples they render."""
        self._looked_at = time.monotonic()
        running = self._running()
        running |= self._frames_to_come(running)
        self._live_jobs, self._live_subjects = set(running), set()
        for job_id, (request, stat) in self._jobs().items():
            if job_id in running or self._young(stat):
                self._live_jobs.add(job_id)
                self._live_subjects.add(subject(request))

    def _frames_to_come(self, running: set[str]) -> set[str]:
        """The frames of sequences that are running or young: also those that no workflow renders yet."""
        frames: set[str] = set()
        for data, stat in self._all("sequences/"):
            if _job_of(stat) in running or self._young(stat):
                request = _load(SequenceRequest, stat.key, data)
                frames.update(request.frame(number).job_id for number in request.numbers)
        return frames

    def _young(self, stat: BlobStat) -> bool:
        return stat.modified >= self._horizon

    def _of_live_job(self, stat: BlobStat) -> bool:
        return stat.key.split("/")[1].removesuffix(".json") in self._live_jobs

    # --- films and plans --------------------------------------------------------------------------

    def _sweep_films(self, manifests: dict[str, Manifest]) -> None:
        kept, expiring = self._named_films(manifests)
        plans = {}
        for data, stat in self._all("plans/"):
            plan = _load(FramePlan, stat.key, data)
            plans[plan.sample_key] = (subject(plan.request), stat)
        for job_id in expiring:
            self._expire(manifests[job_id])
        for sample_key, films in self._film_groups():
            if time.monotonic() - self._looked_at > LOOK_AGAIN:
                self._look()
            about, plan_stat = plans.pop(sample_key, (None, None))
            group = films if plan_stat is None else [*films, plan_stat]
            if about in self._live_subjects or any(self._young(stat) for stat in group):
                continue
            dead = [stat for stat in films if stat.key not in kept]
            for stat in dead:
                self._remove("films", stat)
            if plan_stat is not None and len(dead) == len(films):
                self._remove("plans", plan_stat)
        for about, stat in plans.values():
            if about not in self._live_subjects and not self._young(stat):
                self._remove("plans", stat)

    def _named_films(self, manifests: dict[str, Manifest]) -> tuple[set[str], list[str]]:
        """(keys of the films that published frames keep, jobs whose films may go)."""
        kept: set[str] = set()
        expiring = []
        for job_id, manifest in manifests.items():
            old = self._films_horizon is not None and manifest.publication.created_at < self._films_horizon
            if old and subject(manifest.frame.request) not in self._live_subjects:
                expiring.append(job_id)
            else:
                kept.update(film.key for film in manifest.frame.films)
        return kept, expiring

    def _expire(self, manifest: Manifest) -> None:
        """Says beside the manifest that its films went by intent, before the first of them goes."""
        key, day = layout.expired(manifest.frame.job_id), self._store.now().date()
        if not self._dry_run and self._store.stat(key) is None:
            text = f"films were removed by `tessera gc` on {day}: the frame is older than films are kept"
            self._store.put_new(key, text.encode())

    def _film_groups(self) -> Iterator[tuple[str, list[BlobStat]]]:
        groups: defaultdict[str, list[BlobStat]] = defaultdict(list)
        for stat in self._store.list("films/"):
            groups[stat.key.split("/")[1]].append(stat)
        yield from groups.items()

    # --- jobs, scenes and their files -------------------------------------------------------------

    def _sweep_scenes(self, manifests: dict[str, Manifest]) -> None:
        """From what refers to what is referred to, so that a collection that is cut off leaves nothing that
        lacks a part."""
        needed = {manifest.frame.scene.version for manifest in manifests.values()}
        for job_id, (request, stat) in self._jobs().items():
            if job_id in manifests or job_id in self._live_jobs or self._young(stat):
                needed.add(request.scene.version)
            else:
                self._remove("jobs", stat)
        files: set[str] = set()
        for data, stat in self._all("scenes/"):
            bundle = _load(SceneBundle, stat.key, data)
            if bundle.version in needed or self._young(stat):
                files.update(layout.blob(file.sha256) for file in bundle.files)
            else:
                self._remove("scenes", stat)
        self._sweep("scene files", "blobs/", lambda stat: stat.key in files)

    # --- removing ---------------------------------------------------------------------------------

    def _sweep(self, kind: str, prefix: str, needed: Callable[[BlobStat], bool]) -> None:
        for stat in self._store.list(prefix):
            if not self._young(stat) and not needed(stat):
                self._remove(kind, stat)

    def _remove(self, kind: str, stat: BlobStat) -> None:
        if not self._dry_run:
            try:
                self._store.delete(stat.key, stat.version)
            except Conflict:
                return  # somebody needs it again
        self.removed[kind] += 1
        self.freed += stat.size

    def _all(self, prefix: str) -> Iterator[tuple[bytes, BlobStat]]:
        for stat in self._store.list(prefix):
            try:
                yield self._store.get(stat.key)
            except NotFound:
                continue


def subject(request: FrameRequest) -> str:
    """Names what is rendered, whatever the engine and the number of samples."""
    return request.sample_key("")


def _job_of(stat: BlobStat) -> str:
    return stat.key.rpartition("/")[2].removesuffix(".json")


def _load(model: type[Model], key: str, data: bytes) -> Model:
    try:
        return model.model_validate_json(data)
    except ValueError as error:
        raise damaged(key, error) from error
