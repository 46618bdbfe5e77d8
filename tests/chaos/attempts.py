"""Audit of the histories: every attempt has an end and a reason, and the manifests count them right."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from contracts import ErrorCode, Manifest
from tests.chaos.faults import POISON_SECONDS
from tests.chaos.history import COMPLETED, Step
from tests.chaos.run import Evidence
from tests.chaos.schedule import S3_ONLY, Kind

if TYPE_CHECKING:
    from tests.chaos.audit import Row

STOPS = frozenset(
    {
        Kind.KILL,
        Kind.PAUSE,
        Kind.FREEZE,
        Kind.CHECKPOINTED,
        Kind.WRITING_FILM,
        Kind.UNREPORTED,
        Kind.RENEWING,
        Kind.UNPUBLISHED,
        Kind.PUBLISHED,
    }
)
EXPLAINS = {
    "heartbeat": STOPS | {Kind.TEMPORAL, Kind.POISON} | S3_ONLY,
    ErrorCode.RENDERER_CRASHED: frozenset({Kind.POISON}),
    ErrorCode.WORKER_LOST: STOPS | {Kind.TERM},
    ErrorCode.STORAGE_UNAVAILABLE: S3_ONLY,
    ErrorCode.STORAGE_FULL: frozenset({Kind.DISK_FULL}),
    ErrorCode.LEASE_HELD: STOPS | {Kind.TEMPORAL} | S3_ONLY,
    ErrorCode.LEASE_LOST: STOPS | S3_ONLY,
}
"""Which faults can end an attempt with which cause. A cause that is not here is a breach."""

AFTERMATH = timedelta(seconds=60)
"""How long after a fault an attempt may still end because of it: a stop past the lease, and its timeouts."""


def explained(evidence: Evidence, row: Row) -> Row:
    causes: Counter[str] = Counter()
    attempts = steps = 0
    for job_id, (history, _) in evidence.histories.items():
        for step in history.steps:
            steps, attempts = steps + 1, attempts + step.attempts
            name = f"{job_id} {step.activity_id}"
            row.require(step.outcome != "" or not step.started, f"{name}: has no end")
            lost = step.attempts - (step.outcome == COMPLETED)
            row.require(lost <= 0 or bool(step.causes), f"{name}: {lost} attempts lost and no reason given")
            for cause in step.causes:
                causes[cause] += 1
                fine = any(_explains(cause, step, at, kind) for (kind, *_), at in evidence.faults)
                row.require(fine, f"{name}: {cause} and no fault that explains it")
    told = ", ".join(f"{number} {cause}" for cause, number in causes.most_common())
    row.figure = f"{attempts} attempts of {steps} activities; failures told: {told or 'none'}"
    return row


def _explains(cause: str, step: Step, at: datetime, kind: Kind) -> bool:
    begin, end = step.scheduled - AFTERMATH, step.ended or at
    if kind is Kind.POISON:
        begin -= timedelta(seconds=POISON_SECONDS)
    return begin <= at <= end and kind in EXPLAINS.get(cause, frozenset())


def counted(evidence: Evidence, manifests: dict[str, Manifest], row: Row) -> Row:
    total: Counter[str] = Counter()
    for job_id, (history, _) in evidence.histories.items():
        if (manifest := manifests.get(job_id)) is None:
            continue
        tiles = [step for step in history.steps if step.name == "render_tile"]
        counts = manifest.publication.counts
        found = {
            "attempts": sum(step.attempts for step in tiles),
            "lost": sum(step.attempts - (step.outcome == COMPLETED) for step in tiles),
            "yielded": sum(step.result.get("outcome") == "yielded" for step in tiles),
        }
        told = dict(zip(found, (counts.attempts, counts.attempts_lost, counts.attempts_yielded), strict=True))
        row.require(told == found, f"{job_id}: the manifest says {told}, the history {found}")
        done = counts.samples_rendered + counts.samples_resumed
        frame = manifest.frame
        target = frame.width * frame.height * frame.request.samples_per_pixel
        row.require(done == target, f"{job_id}: {done} of {target} samples")
        total.update(found)
    row.figure = ", ".join(f"{number} {name}" for name, number in total.items())
    return row
