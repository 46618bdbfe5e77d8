"""That the audit has teeth: evidence of something gone wrong is a breach, in the row where it belongs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from client.published import published
from contracts import FrameRequest, Manifest
from store import LocalStore, layout
from tests import frames
from tests.chaos import attempts, audit, samples
from tests.chaos.audit import Row
from tests.chaos.faults import Done
from tests.chaos.history import COMPLETED, FAILED, History, Step
from tests.chaos.run import Evidence
from tests.chaos.schedule import Fault, Kind
from tests.chaos.watch import Beat

START = datetime(2026, 1, 1, tzinfo=UTC)
RATE = 100.0
"""Samples a second. With a checkpoint interval of 0.25 s, a slice of 0.2 s and the margin: 90 may be lost."""
WORKER = "tiles@host:12:abcd"


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


class Case:
    """A published frame of six tiles, and evidence of a run in which nothing went wrong."""

    def __init__(self, folder: Path) -> None:
        self.store = LocalStore(folder / "store")
        self.request: FrameRequest = frames.publish(self.store, 4)
        found = published(self.store, self.request.job_id)
        assert found is not None
        self.manifest: Manifest = found
        frame = found.frame
        self.tile = frame.films[0].tile_id
        (folder / "tmp").mkdir()
        (folder / "0000.exr").write_bytes(self.store.get(frame.images[0].key)[0])
        reference = SimpleNamespace(
            film_sha256=frame.film_sha256,
            exr_sha256=frame.images[0].sha256,
            plan=SimpleNamespace(sample_key=frame.sample_key),
            rate={film.tile_id: RATE for film in frame.films},
            tiles=[SimpleNamespace(tile_id=self.tile, area=256)],
        )
        order = SimpleNamespace(
            number=0,
            job_id=frame.job_id,
            reference=reference,
            frame=SimpleNamespace(samples=4),
            letters=[],
        )
        farm = SimpleNamespace(
            folder=folder,
            store=self.store,
            temporary=folder / "tmp",
            env={"TESSERA_CHECKPOINT_SECONDS": "0.25"},
        )
        self.history = History([], completed=True)
        self.evidence = cast(
            Evidence,
            SimpleNamespace(
                farm=farm,
                orders=[order],
                faults=[],
                damaged=set(),
                beats=[],
                histories={frame.job_id: (self.history, 1)},
            ),
        )

    def beat(self, seconds: float, attempt: int, numbers: tuple[int, int, int]) -> Beat:
        """numbers: samples, stored, resumed."""
        name = f"{self.tile}.1"
        return Beat(after(seconds), self.request.job_id, self.tile, name, attempt, WORKER, *numbers)

    def step(self, **fields: Any) -> Step:
        tile = {"x": 0, "y": 0, "width": 16, "height": 16}
        step = Step("render_tile", "1", {"tiles": [tile]}, after(0), **fields)
        self.history.steps.append(step)
        return step


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


STORE_ROWS: tuple[Callable[[Case], Row], ...] = (
    lambda case: audit.same_bytes(case.evidence, audit.read_manifests(case.store)),
    lambda case: audit.published_once(case.evidence, case.store, audit.read_manifests(case.store)),
    lambda case: audit.fetched(case.evidence, audit.read_manifests(case.store)),
    lambda case: audit.nothing_left(case.evidence, case.store, audit.read_manifests(case.store)),
)


def breached(case: Case) -> list[bool]:
    return [bool(row(case).breaches) for row in STORE_ROWS]


def test_a_sound_frame_is_no_breach(case: Case) -> None:
    assert breached(case) == [False, False, False, False]


def test_what_is_wrong_in_the_store_is_found(case: Case) -> None:
    cast(Any, case.evidence.orders[0].reference).film_sha256 = "0" * 64
    case.store.put_new(layout.dead_letter("a.b"), b"")  # gc removes it: no job of this name runs
    case.store.put_new("unknown/key", b"")
    case.store.delete(case.manifest.frame.images[1].key)
    (case.evidence.farm.folder / "0000.exr").write_bytes(b"cut")
    assert breached(case) == [True, True, True, True]


def test_an_attempt_that_began_anew_is_found(case: Case) -> None:
    case.evidence.beats[:] = [case.beat(0, 1, (200, 150, 0)), case.beat(5, 2, (160, 150, 150))]
    assert samples.lost(case.evidence, Row("")).breaches == []
    case.evidence.beats[:] = [case.beat(0, 1, (200, 150, 0)), case.beat(5, 2, (10, 0, 0))]
    assert samples.lost(case.evidence, Row("")).breaches != []


def test_work_that_is_not_stored_in_time_is_found(case: Case) -> None:
    case.evidence.beats[:] = [case.beat(0, 1, (200, 110, 0))]
    assert samples.at_risk(case.evidence, Row("")).breaches == []
    case.evidence.beats[:] = [case.beat(0, 1, (200, 109, 0))]
    assert samples.at_risk(case.evidence, Row("")).breaches != []


@pytest.mark.parametrize(("resumed", "breach"), [(256 * 4, False), (256 * 3, True)])
def test_a_finished_tile_that_is_rendered_again_is_found(case: Case, resumed: int, breach: bool) -> None:
    later = datetime.now(UTC) + timedelta(minutes=1)
    case.step(started=later, outcome=COMPLETED, result={"finished": 1, "resumed": resumed})
    assert bool(samples.not_again(case.evidence, case.store, Row("")).breaches) == breach


@pytest.mark.parametrize(
    ("cause", "kind", "at", "breach"),
    [
        ("heartbeat", Kind.KILL, 1, False),
        ("heartbeat", Kind.CORRUPT, 1, True),
        ("heartbeat", Kind.KILL, 100, True),
        ("internal", Kind.KILL, 1, True),
        ("nondeterministic", Kind.CORRUPT, 1, True),
    ],
)
def test_an_attempt_without_a_reason_is_found(
    case: Case, cause: str, kind: Kind, at: float, breach: bool
) -> None:
    case.step(started=after(20), attempts=2, causes=[cause], outcome=COMPLETED, ended=after(30))
    case.evidence.faults.append(Done(Fault(kind, "tiles", 1, 0.5, False), after(at)))
    assert bool(attempts.explained(case.evidence, Row("")).breaches) == breach


def test_counts_that_differ_are_found(case: Case) -> None:
    case.step(started=after(0), attempts=3, outcome=FAILED, ended=after(9), causes=["heartbeat"])
    manifests = audit.read_manifests(case.store)
    assert attempts.counted(case.evidence, manifests, Row("")).breaches != []
