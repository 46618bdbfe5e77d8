"""What a collection removes, and what it must never remove, also beside a busy farm."""

from __future__ import annotations

import os
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest

from client.errors import Unreachable
from client.gc import Collector
from client.sequences import record
from client.verify import Verification, load_manifest
from contracts import FrameRequest, Manifest, SequenceRequest
from starter import main
from store import LocalStore, NotFound, Store, layout
from store.lease import acquire
from tests import frames

WEEK, MONTH = timedelta(days=7), timedelta(days=30)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


def age(store: LocalStore, days: float, prefix: str = "") -> None:
    """Makes everything older. A version is made of the time of writing, as after a real week."""
    for stat in store.list(prefix):
        path, moment = store.root / stat.key, time.time() - days * 86400
        os.utime(path, (moment, moment))


def collect(
    store: Store, *running: str, keep_films: timedelta | None = MONTH, dry: bool = False
) -> Collector:
    collector = Collector(store, lambda: set(running), WEEK, keep_films, dry)
    collector.collect()
    return collector


def keys(store: Store) -> set[str]:
    return {stat.key for stat in store.list("")}


def faults(store: Store, request: FrameRequest) -> list[str]:
    return Verification(store, *load_manifest(store, request.job_id), lambda step: None).faults


def test_what_is_young_stays(store: LocalStore) -> None:
    frames.render(store, frames.submit(store))
    store.put_new("images/x/y/frame.exr", b"left behind")
    before = keys(store)
    assert collect(store).freed == 0 and keys(store) == before


def test_everything_of_an_abandoned_frame_goes(store: LocalStore) -> None:
    request = frames.submit(store)
    frames.render(store, request)
    store.put_new("images/x/y/frame.exr", b"left behind")
    store.put_new("set-aside/films/x/y", b"damaged")
    with acquire(store, layout.lease(request.job_id), "owner", 10.0):
        pass
    age(store, 8)
    size = sum(stat.size for stat in store.list(""))
    assert collect(store, dry=True).freed == size and keys(store)
    collector = collect(store)
    assert keys(store) == set() and collector.freed == size
    assert collector.removed["films"] >= 6 and collector.removed["scenes"] == 1


def test_what_runs_stays_however_old(store: LocalStore) -> None:
    request = frames.submit(store)
    frames.render(store, request)
    age(store, 400)
    before = keys(store)
    collect(store, request.job_id)
    assert keys(store) == before


def test_what_a_running_sequence_has_yet_to_start_stays(store: LocalStore) -> None:
    """Nobody runs its frames, but their scene and records are needed when their turn comes."""
    first = frames.submit(store)
    request = SequenceRequest(template=first, frames=((first.frame_number, first.frame_number + 9, 1),))
    record(store, request)
    age(store, 400)
    before = keys(store)
    collect(store, request.job_id)
    assert keys(store) == before
    collect(store)
    assert keys(store) == set()


def test_a_running_frame_of_more_samples_keeps_the_films(store: LocalStore) -> None:
    frames.render(store, frames.submit(store, samples=4))
    more = frames.submit(store, samples=8)
    films = {stat.key for stat in store.list("films/")}
    age(store, 8)
    collect(store, more.job_id)
    assert {stat.key for stat in store.list("films/")} == films


def test_a_published_frame_loses_only_its_leftovers(store: LocalStore) -> None:
    request = frames.publish(store)
    store.put_new(layout.image(request.job_id, "run/2/1", "frame.exr"), b"of an attempt that died")
    age(store, 8)
    manifest = Manifest.decode(store.get(layout.manifest(request.job_id))[0])
    collect(store)
    assert faults(store, request) == []
    assert {stat.key for stat in store.list("images/")} == {image.key for image in manifest.frame.images}
    assert {stat.key for stat in store.list("films/")} == {film.key for film in manifest.frame.films}


def test_films_of_a_published_frame_go_when_the_policy_says_so(store: LocalStore) -> None:
    request = frames.publish(store)
    age(store, 40)
    assert collect(store, keep_films=None).removed["films"] == 0
    assert collect(store, keep_films=timedelta(0)).removed["films"] == 6
    assert list(store.list("films/")) == []
    found = Verification(store, *load_manifest(store, request.job_id), lambda step: None)
    assert found.faults == [] and any("removed by `tessera gc`" in line for line in found.checked)


def test_a_damaged_manifest_stops_the_collection(store: LocalStore) -> None:
    request = frames.publish(store)
    key = layout.manifest(request.job_id)
    store.delete(key)
    store.put_new(key, b"{}")
    age(store, 40)
    before = keys(store)
    with pytest.raises(Unreachable, match="damaged"):
        collect(store)
    assert keys(store) == before


class SubmitInBetween(LocalStore):
    """A store in which somebody submits just before each thing is removed."""

    def delete(self, key: str, expected: str | None = None) -> None:
        if expected is not None and not key.startswith(("films/", "plans/", "leases/")):
            frames.submit(LocalStore(self.root))
        super().delete(key, expected)


def test_a_submit_in_the_middle_of_a_collection_loses_nothing(store: LocalStore) -> None:
    request = frames.submit(store)
    age(store, 8)
    collect(SubmitInBetween(store.root))
    frames.finalize(store, request, frames.render(store, request))
    assert faults(store, request) == []


def test_beside_a_busy_farm(store: LocalStore) -> None:
    """Collections without a pause, while frames of one scene are submitted, rendered and published, each a
    week after the one before: each is published and verifies, whatever was removed in between."""
    running: set[str] = set()
    stop = threading.Event()
    errors: list[BaseException] = []

    def loop() -> None:
        try:
            while not stop.is_set():
                collect(store, *running, keep_films=None)
        except BaseException as error:  # noqa: BLE001  shown by the test
            errors.append(error)

    thread = threading.Thread(target=loop)
    thread.start()
    published = []
    try:
        for seed in range(4):
            age(store, 8)
            request = frames.submit(store, seed=seed)
            running.add(request.job_id)
            outcome = None
            while outcome is None or outcome.result is None:
                outcome = frames.finalize(store, request, frames.render(store, request), f"run{seed}")
            running.discard(request.job_id)
            published.append(request)
    finally:
        stop.set()
        thread.join()
    assert errors == []
    assert [faults(store, request) for request in published] == [[]] * 4


def test_the_command_refuses_an_age_that_is_not_safe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["gc", "--older-than", "1h"]) == 2
    assert "--older-than" in capsys.readouterr().err
    assert main(["gc", "--older-than", "soon"]) == 2
    store = LocalStore(tmp_path / ".tessera" / "store")
    store.put_new("set-aside/x", b"damaged")
    age(store, 8)
    assert main(["gc", "--dry-run"]) == 0
    assert "would free" in capsys.readouterr().out and store.stat("set-aside/x") is not None
    assert main(["gc"]) == 0
    with pytest.raises(NotFound):
        store.get("set-aside/x")
