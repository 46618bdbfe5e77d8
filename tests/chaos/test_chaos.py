"""The short form of `make chaos`, and that its schedule is the seed's alone."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from tests.chaos.audit import audit
from tests.chaos.reference import References
from tests.chaos.report import table
from tests.chaos.run import Evidence, Run
from tests.chaos.schedule import Kind, frames, kinds_for, schedule

FAULTS, FRAMES, SEED = 10, 3, 1
SLOW = frozenset({Kind.POISON})
"""A minute until its frame is parked; tests/system/test_faults.py has a test of its own."""


@pytest.mark.system
def test_faults_leave_nothing_to_complain_of(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    references = References()
    references.prepare(islice(frames(), FRAMES))
    found: list[str] = []

    def judge(evidence: Evidence) -> None:
        rows = audit(evidence)
        print(table(evidence, rows))
        found.extend(breach for row in rows for breach in row.breaches)

    store = request.config.getoption("--store")
    Run(store, SEED, FAULTS, FRAMES, print, without=SLOW).collect(tmp_path / "farm", references, judge)
    assert found == []


@pytest.mark.parametrize(("store", "disk"), [("local", True), ("local", False), ("s3", False)])
def test_a_seed_is_one_schedule_and_every_kind_comes_early(store: str, disk: bool) -> None:
    kinds = kinds_for(store, disk)
    first = list(islice(schedule(7, kinds), 200))
    assert first == list(islice(schedule(7, kinds), 200))
    assert first != list(islice(schedule(8, kinds), 200))
    assert {fault.kind for fault in first[: len(kinds)]} == set(kinds)
    assert (Kind.DISK_FULL in kinds) == disk
