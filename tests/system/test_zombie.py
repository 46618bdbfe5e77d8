"""A worker that is stopped in the middle of finalize, and goes on after another one has published."""

from __future__ import annotations

import signal
import subprocess
from functools import partial
from typing import Any

import pytest

from contracts import Manifest
from store import layout
from tests.stress.processes import is_stopped
from tests.system.conftest import SCENE
from tests.system.farm import Farm, poll

pytestmark = pytest.mark.system

OPTIONS = ("--size", "1024x1024", "--tile", "128", "--max-depth", "2", "--spp", "1")
"""Cheap to render, and large enough that merging takes a while."""
TRIES = 10
LOST = ("lease_lost", "published by another attempt already")
"""The latter where it was stopped in the instant between its last look at the lease and the commit."""
MOMENTS = {"lease taken": "leases/{job}.json", "picture stored": "images/{job}/"}
"""What is in the store from that moment on, by its prefix."""


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_finalizer_that_was_overtaken_changes_nothing_and_says_so(farm: Farm, moment: str) -> None:
    farm.start_worker("control")
    first = farm.start_worker("tiles")
    first_log = farm.folder / f"tiles-{farm.processes.index(first)}.log"
    job = stop_half_way(farm, first, moment)
    farm.start_worker("tiles")
    before = farm.wait_for_status(job, "completed", "dead_lettered", "failed_terminal")
    published = everything_of(farm, job)
    first.send_signal(signal.SIGCONT)
    poll(lambda: any(word in first_log.read_text() for word in LOST), "the first worker says that it lost")
    assert before["status"] == "completed"
    assert everything_of(farm, job) == published
    assert farm.tessera("status", job)["result"] == before["result"]
    farm.tessera("verify", job)
    assert first.poll() is None  # it lives, and works on


def stop_half_way(farm: Farm, worker: subprocess.Popen[bytes], moment: str) -> str:
    """Submits frames until the worker stands between that moment of finalizing and publishing; the job."""
    for seed in range(TRIES):
        job: str = farm.tessera("submit", str(SCENE), *OPTIONS, "--seed", str(seed))["job_id"]
        prefix = MOMENTS[moment].format(job=job)
        poll(partial(is_there, farm, prefix), f"{prefix} appears", every=0.001)
        worker.send_signal(signal.SIGSTOP)
        poll(lambda: is_stopped(worker.pid), "the worker stands")
        if farm.store.stat(layout.manifest(job)) is None:
            return job
        worker.send_signal(signal.SIGCONT)
    raise AssertionError(f"{TRIES} times it was too fast to be stopped half-way")


def is_there(farm: Farm, prefix: str) -> bool:
    return next(farm.store.list(prefix), None) is not None


def everything_of(farm: Farm, job: str) -> dict[str, Any]:
    """The manifest, the lease, and the versions of all that the manifest names."""
    data, found = farm.store.get(layout.manifest(job))
    frame = Manifest.decode(data).frame
    keys = [*(image.key for image in frame.images), *(film.key for film in frame.films)]
    lease = farm.store.get(layout.lease(job))
    return {"manifest": (data, found), "lease": lease} | {key: farm.store.stat(key) for key in keys}
