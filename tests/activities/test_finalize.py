"""finalize_frame beside another attempt at the same frame."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError

from activities import finalize
from contracts import ErrorCode, FinalizeOutcome, FinalizeTask, Manifest
from store import LocalStore, Store, layout
from store.lease import acquire
from tests.stress.finalizer import prepare, run_attempt


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


def run(store: Store, task: FinalizeTask, who: int) -> FinalizeOutcome:
    outcome: FinalizeOutcome = run_attempt(store, task, who, 1, lambda: None)
    return outcome


def test_a_second_finalizer_is_told_the_first_ones_frame_and_says_so(
    store: LocalStore, caplog: pytest.LogCaptureFixture
) -> None:
    task = prepare(store, 1)
    first = run(store, task, 1)
    before = store.get(layout.manifest(task.job_id))
    assert caplog.records == []
    with caplog.at_level(logging.WARNING):
        assert run(store, task, 2) == first
    assert store.get(layout.manifest(task.job_id)) == before
    (record,) = caplog.records
    by = Manifest.decode(before[0]).publication
    assert (record.message, record.__dict__["by"]) == ("published by another attempt already", by.attempt_id)


def test_a_frame_that_is_being_finalized_is_lease_held(store: LocalStore) -> None:
    task = prepare(store, 1)
    with (
        acquire(store, layout.lease(task.job_id), "another", 1000.0),
        pytest.raises(ApplicationError, match="held by another with fence 1") as caught,
    ):
        run(store, task, 1)
    assert caught.value.type == ErrorCode.LEASE_HELD
    assert run(store, task, 1).result is not None


def test_an_attempt_that_is_overtaken_at_its_last_step_publishes_nothing(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, moment = prepare(store, 1), [0.0]
    key = layout.lease(task.job_id)

    def overtake(task: FinalizeTask) -> tuple[()]:
        moment[0] = finalize.LEASE_SECONDS / 2  # so that the next check has to renew
        version = store.get(key)[1].version
        store.swap(key, b'{"fence": 2, "owner": "b", "ttl": 1000, "free": false, "nonce": ""}', version)
        return ()

    monkeypatch.setattr(finalize, "acquire", partial(acquire, clock=lambda: moment[0]))
    monkeypatch.setattr(finalize, "tile_records", overtake)
    with pytest.raises(ApplicationError, match="taken over by b with fence 2") as caught:
        run(store, task, 1)
    assert caught.value.type == ErrorCode.LEASE_LOST
    assert len(list(store.list("images/"))) == 2  # it had come that far
    assert store.stat(layout.manifest(task.job_id)) is None
    assert b'"owner": "b"' in store.get(key)[0]
