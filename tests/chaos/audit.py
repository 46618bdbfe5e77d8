"""What must hold when everything has ended. Each check is one row of the table; a breach fails the run."""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from activities.finalize import LEASE_SECONDS
from activities.scratch import PREFIX, remove_leftovers
from client.gc import Collector
from client.verify import Verification
from contracts import DeadLetter, ErrorCode, Manifest
from store import LocalStore, Store, layout
from store.lease import LeaseState
from store.local import OWN_FOLDER
from tests.chaos import attempts, samples
from tests.chaos.farm import ChaosFarm
from tests.chaos.history import COMPLETED, History
from tests.chaos.run import Evidence
from workflows import policies


@dataclass
class Row:
    claim: str
    figure: str = ""
    breaches: list[str] = field(default_factory=list)

    def require(self, fine: bool, breach: str) -> None:
        if not fine:
            self.breaches.append(breach)


def audit(evidence: Evidence) -> list[Row]:
    store = evidence.farm.store
    manifests = read_manifests(store)
    return [
        ended(evidence),
        parked(evidence),
        same_bytes(evidence, manifests),
        published_once(evidence, store, manifests),
        fetched(evidence, manifests),
        attempts.explained(evidence, Row("the history explains every attempt")),
        attempts.counted(evidence, manifests, Row("manifests count the attempts that the histories hold")),
        samples.not_again(evidence, store, Row("no finished tile is rendered again")),
        samples.at_risk(evidence, Row("a kill loses at most a checkpoint interval and a slice")),
        samples.lost(evidence, Row("attempts that were cut off lost no more than that")),
        processes(evidence),
        leases_free(store),
        nothing_left(evidence, store, manifests),
    ]


def read_manifests(store: Store) -> dict[str, Manifest]:
    found = {}
    for blob in store.list(layout.manifests()):
        manifest = Manifest.decode(store.get(blob.key)[0])
        found[manifest.frame.job_id] = manifest
    return found


def ended(evidence: Evidence) -> Row:
    row = Row("every frame that was submitted is completed")
    for job_id, (history, _) in evidence.histories.items():
        row.require(history.completed, f"{job_id}: its run is not completed")
    done = sum(history.completed for history, _ in evidence.histories.values())
    row.figure = f"{done} of {len(evidence.orders)}"
    return row


def parked(evidence: Evidence) -> Row:
    """An operator retried each; here it only counts whether parking was right."""
    row = Row("frames parked on the way had a true reason")
    reasons: Counter[str] = Counter()
    for order in evidence.orders:
        for letter in order.letters:
            reasons.update(failure.code for failure in letter.failures)
            history, _ = evidence.histories[order.job_id]
            row.require(is_true(letter, history), f"{order.job_id}: parked for {letter.failures}")
    row.figure = listed(reasons) or "none was"
    return row


def is_true(letter: DeadLetter, history: History) -> bool:
    """Poison: the tile lost a whole round and one in isolation. Others: a step used up all its attempts."""
    for failure in letter.failures:
        if failure.code is ErrorCode.TILE_POISONOUS:
            lost = sum(
                step.attempts
                for step in history.steps
                if step.name == "render_tile"
                and step.outcome != COMPLETED
                and any(f"x{t['x']:04d}y{t['y']:04d}" in str(failure.tile_id) for t in step.task["tiles"])
            )
            rounds = policies.TILE_RETRY.maximum_attempts + policies.ISOLATED_RETRY.maximum_attempts
            if lost < rounds:
                return False
        elif not any(
            step.outcome != COMPLETED and step.attempts == policies.STEP_RETRY.maximum_attempts
            for step in history.steps
        ):
            return False
    return True


def same_bytes(evidence: Evidence, manifests: dict[str, Manifest]) -> Row:
    row = Row("published bytes are the undisturbed ones (film_sha256, EXR)")
    same = 0
    for order in evidence.orders:
        if (manifest := manifests.get(order.job_id)) is not None:
            found = (manifest.frame.film_sha256, manifest.frame.images[0].sha256)
            wanted = (order.reference.film_sha256, order.reference.exr_sha256)
            row.require(found == wanted, f"{order.job_id}: film and EXR {found}, undisturbed {wanted}")
            same += found == wanted
    row.figure = f"{same} of {len(evidence.orders)}"
    return row


def published_once(evidence: Evidence, store: Store, manifests: dict[str, Manifest]) -> Row:
    row = Row("exactly one manifest a frame, and it verifies")
    jobs = {order.job_id for order in evidence.orders}
    row.require(set(manifests) == jobs, f"manifests differ from orders: {set(manifests) ^ jobs}")
    blobs = 0
    for job_id, manifest in manifests.items():
        verification = Verification(store, job_id, store.get(layout.manifest(job_id))[0], lambda step: None)
        row.breaches += verification.faults
        blobs += len(manifest.frame.films) + len(manifest.frame.images)
    runs = Counter(number for _, number in evidence.histories.values())
    row.require(set(runs) <= {1}, f"frames with several runs: {dict(runs)}")
    row.figure = f"{len(manifests)} manifests, {blobs} films and pictures"
    return row


def fetched(evidence: Evidence, manifests: dict[str, Manifest]) -> Row:
    """What the clients wrote is what the manifests name."""
    row = Row("no completed frame without its files")
    whole = 0
    for order in evidence.orders:
        path = evidence.farm.folder / f"{order.number:04d}.exr"
        found = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "nothing"
        manifest = manifests.get(order.job_id)
        fine = manifest is not None and found == manifest.frame.images[0].sha256
        row.require(fine, f"{order.job_id}: its client has {found}")
        whole += fine
    row.figure = f"{whole} of {len(evidence.orders)} fetched"
    return row


def processes(evidence: Evidence) -> Row:
    farm, clients = evidence.farm, evidence.clients
    return Row(
        "no process ends by itself, and all leave on SIGTERM",
        f"{len(farm.processes)} processes; {farm.died_of_absence} workers and {clients.unreachable} clients "
        "ended since store or Temporal was away",
        list(farm.breaches),
    )


def leases_free(store: Store) -> Row:
    """One whose holder was killed may run out first."""
    row, until, held = Row("no lease is held"), time.monotonic() + 2 * LEASE_SECONDS, ["?"]
    while held and time.monotonic() < until:
        held = [key for key, state, age in leases(store) if not state.free and age < state.ttl]
        if held:
            time.sleep(0.5)
    row.breaches += [f"{key} is held" for key in held]
    found = [state for _, state, _ in leases(store)]
    fences = max((state.fence for state in found), default=0)
    row.figure = f"{len(found)} leases, highest fence {fences}"
    return row


def leases(store: Store) -> Iterable[tuple[str, LeaseState, float]]:
    for blob in store.list("leases/"):
        age = (store.now() - blob.modified).total_seconds()
        yield blob.key, LeaseState.decode(blob.key, store.get(blob.key)[0]), age


def nothing_left(evidence: Evidence, store: Store, manifests: dict[str, Manifest]) -> Row:
    """After a collection that spares nothing for its age, all that is there belongs to a published frame."""
    row = Row("no lease, temporary file or orphan is left after gc")
    for path in temporaries(evidence.farm, store):
        os.utime(path, (0, 0))  # young ones are let be, whose writers may live: here none does
    scratch = remove_leftovers(evidence.farm.temporary)  # as each worker does when it starts
    collector = Collector(store, set, timedelta(0), None)
    collector.collect()
    needed = {key for manifest in manifests.values() for key in keys_of(manifest)}
    for blob in store.list(""):
        row.require(blob.key in needed, f"{blob.key} is left")
    row.breaches += [f"temporary file {path.name} is left" for path in temporaries(evidence.farm, store)]
    row.figure = f"removed {listed(collector.removed) or 'nothing'}, {scratch} folders of killed finalizers"
    return row


def temporaries(farm: ChaosFarm, store: Store) -> list[Path]:
    """What killed writers left in a local store, and killed finalizers in the temporary folder."""
    inside = list((store.root / OWN_FOLDER / "tmp").iterdir()) if isinstance(store, LocalStore) else []
    return inside + list(farm.temporary.glob(PREFIX + "*"))


def keys_of(manifest: Manifest) -> Iterable[str]:
    """All that a published frame consists of."""
    frame = manifest.frame
    yield layout.manifest(frame.job_id)
    yield layout.job(frame.job_id)
    yield layout.plan(frame.sample_key)
    yield layout.bundle(frame.scene.version)
    yield from (layout.blob(file.sha256) for file in frame.bundle.files)
    yield from (image.key for image in frame.images)
    yield from (film.key for film in frame.films)


def listed(counts: Counter[str]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.most_common() if number)
