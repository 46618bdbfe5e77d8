"""What a frame workflow knows: plain data, the decision which state it is in, and how it is shown."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from temporalio import workflow

from workflows import policies
from workflows.tiling import from_ranges, tile_at, tile_count, to_ranges

with workflow.unsafe.imports_passed_through():
    from contracts import (
        AttemptCounts,
        Failure,
        FramePlan,
        FrameRequest,
        FrameResult,
        FrameRun,
        FrameStatus,
        JobStatus,
        Ranges,
        RunCounts,
        SampleCounts,
        TileCounts,
    )


class Phase(StrEnum):
    """What the workflow is doing; together with `paused` it decides the frame's status."""

    PREPARING = "preparing"
    RENDERING = "rendering"
    FINALIZING = "finalizing"
    PARKED = "parked"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass
class FrameState:
    """Mutable state of one run; FrameRun is its frozen form between runs."""

    request: FrameRequest
    created_at: datetime
    updated_at: datetime
    plan: FramePlan | None = None
    rendered: set[int] = field(default_factory=set)
    worker_of: dict[int, str] = field(default_factory=dict)
    """The worker that reported a tile as rendered."""
    attempts: Counter[int] = field(default_factory=Counter)
    """Of each tile."""
    standing: dict[int, int] = field(default_factory=dict)
    isolated: set[int] = field(default_factory=set)
    dead: dict[int, Failure] = field(default_factory=dict)
    counts: RunCounts = field(default_factory=RunCounts)
    paused: bool = False
    discard: bool = False
    """When cancelled, the films go too."""
    last_failure: Failure | None = None
    phase: Phase = Phase.PREPARING
    result: FrameResult | None = None

    @classmethod
    def begin(cls, run: FrameRun, now: datetime) -> FrameState:
        return cls(
            request=run.request,
            created_at=run.created_at or now,
            updated_at=now,
            plan=run.plan,
            rendered=from_ranges(run.rendered),
            worker_of={n: name for name, tiles in run.workers.items() for n in from_ranges(tiles)},
            attempts=Counter({n: run.attempts.get(n, 1) for n in from_ranges(run.rendered)} | run.attempts),
            standing=dict(run.standing),
            isolated=set(run.isolated),
            dead=dict(run.dead),
            counts=run.counts,
            paused=run.paused,
            discard=run.discard,
            last_failure=run.last_failure,
        )

    def carry(self) -> FrameRun:
        """What the next run of a continue-as-new begins with."""
        return FrameRun(
            request=self.request,
            created_at=self.created_at,
            plan=self.plan,
            rendered=to_ranges(self.rendered),
            workers=self.workers(),
            attempts=self.unusual_attempts(),
            standing=self.standing,
            isolated=tuple(sorted(self.isolated)),
            dead=self.dead,
            counts=self.counts,
            paused=self.paused,
            discard=self.discard,
            last_failure=self.last_failure,
        )

    def count(self, **amounts: int) -> None:
        """Adds to the run's counts."""
        old = self.counts
        self.counts = old.model_copy(update={name: getattr(old, name) + n for name, n in amounts.items()})

    def run_counts(self, plan: FramePlan) -> RunCounts:
        """What the manifest says of the run."""
        target = plan.width * plan.height * self.request.samples_per_pixel
        return self.counts.model_copy(update={"tiles": tile_count(plan), "samples_target": target})

    def count_attempts(self, tiles: Iterable[int], attempts: int) -> None:
        for number in tiles:
            self.attempts[number] += attempts

    def workers(self) -> dict[str, Ranges]:
        """Which worker rendered which tiles: a few ranges each, where a name a tile would be too much to
        hand on."""
        tiles_of: defaultdict[str, list[int]] = defaultdict(list)
        for number, name in self.worker_of.items():
            tiles_of[name].append(number)
        return {name: to_ranges(numbers) for name, numbers in tiles_of.items()}

    def unusual_attempts(self) -> dict[int, int]:
        """Attempts of the tiles that took another number than one: they are few."""
        return {number: count for number, count in self.attempts.items() if count != 1}

    def revive(self, tile_ids: frozenset[str]) -> None:
        """Opens dead tiles for another try: those named, or all where none is."""
        for number, failure in list(self.dead.items()):
            if not tile_ids or failure.tile_id in tile_ids:
                del self.dead[number]
                self.standing.pop(number, None)
        self.last_failure = None

    def lose(self, plan: FramePlan, tiles: tuple[int, ...]) -> None:
        """Opens rendered tiles again, whose films are gone, and takes their samples off the counts."""
        samples = sum(tile_at(plan, number).area for number in tiles) * self.request.samples_per_pixel
        rendered = min(samples, self.counts.samples_rendered)
        self.rendered.difference_update(tiles)
        self.count(samples_rendered=-rendered, samples_resumed=rendered - samples)

    @property
    def tiles_total(self) -> int:
        return tile_count(self.plan) if self.plan else 0

    @property
    def progress(self) -> float:
        """Share of the tiles that are rendered. A frame that renders stays below 1: its last tile is
        announced with what follows."""
        if self.phase in (Phase.FINALIZING, Phase.COMPLETED):
            return 1.0
        return min(0.999, len(self.rendered) / self.tiles_total) if self.tiles_total else 0.0

    @property
    def status(self) -> FrameStatus:
        """The one place that decides what state a frame is in."""
        match self.phase:
            case Phase.COMPLETED:
                return FrameStatus.COMPLETED
            case Phase.FAILED:
                return FrameStatus.FAILED_TERMINAL
            case Phase.CANCELLED:
                return FrameStatus.CANCELLED
            case Phase.PARKED:
                return FrameStatus.DEAD_LETTERED
            case Phase.FINALIZING:  # a pause keeps tiles from rendering; there are none any more
                return FrameStatus.FINALIZING
            case _ if self.paused:
                return FrameStatus.PAUSED
            case Phase.PREPARING:
                return FrameStatus.QUEUED
            case Phase.RENDERING:
                return FrameStatus.PROGRESSING if self.rendered else FrameStatus.RUNNING

    def job_status(self, job_id: str, running: int) -> JobStatus:
        request, plan, counts = self.request, self.plan, self.counts
        target = plan.width * plan.height * request.samples_per_pixel if plan else 0
        return JobStatus(
            job_id=job_id,
            idempotency_key=request.idempotency_key,
            status=self.status,
            frame=request.frame_number,
            progress=self.progress,
            tiles=TileCounts(
                total=self.tiles_total, rendered=len(self.rendered), running=running, dead=len(self.dead)
            ),
            samples=SampleCounts(
                target=target, rendered=counts.samples_rendered, resumed=counts.samples_resumed
            ),
            attempts=AttemptCounts(
                total=counts.attempts, lost=counts.attempts_lost, yielded=counts.attempts_yielded
            ),
            dead_tiles=tuple(tile_at(plan, number).tile_id for number in sorted(self.dead)) if plan else (),
            error=self.last_failure,
            result=self.result,
            input_hash=plan.sample_key if plan else None,
            max_retries=policies.TILE_RETRY.maximum_attempts - 1,
            progress_pointer=f"films/{plan.sample_key}/" if plan else None,
            created_at=self.created_at,
            updated_at=self.updated_at,
            engine=plan.engine if plan else None,
            warnings=plan.warnings if plan else (),
            note=f"{len(self.isolated)} tiles failed a whole round and run alone" if self.isolated else None,
        )
