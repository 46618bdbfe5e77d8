"""A frame to finalize, a process that finalizes it and may be killed or stopped half-way, and a reader."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities import finalize
from contracts import (
    BundleFile,
    FinalizeTask,
    FramePlan,
    FrameRequest,
    FrameResult,
    Manifest,
    RunCounts,
    SceneBundle,
    SceneRef,
)
from store import NotFound, Store, layout, open_store
from store.blobs import put_blob, stored_digest
from tracer.film import CHANNELS, NONFINITE, encode_film
from workflows.tiling import tile_at, tile_count

WIDTH, HEIGHT, TILE, SAMPLES = 160, 96, 32, 4
ENGINE = "engine-of-the-stress"
LEASE_SECONDS = 0.5
"""Too short to keep finalizers apart, above all by a clock of whole seconds: the commit must not rest on
being alone."""


def prepare(store: Store, seed: int) -> FinalizeTask:
    """Stores a frame's scene and films, as rendering leaves them, and returns what is left to do."""
    file = b"a scene, as far as finalizing is concerned\n"
    sha256 = put_blob(store, file)
    bundle = SceneBundle(
        entry="scene.obj", files=(BundleFile(path="scene.obj", sha256=sha256, size=len(file)),)
    )
    request = FrameRequest(
        project_id="stress",
        scene=SceneRef(version=bundle.version, entry=bundle.entry),
        samples_per_pixel=SAMPLES,
        picture_version=1,
        frame_number=seed,
    )
    sample_key = request.sample_key(ENGINE)
    plan = FramePlan(
        sample_key=sample_key,
        engine=ENGINE,
        request=request,
        scene_hash="0" * 64,
        width=WIDTH,
        height=HEIGHT,
        tile_size=TILE,
    )
    store.put_new(layout.bundle(bundle.version), bundle.model_dump_json().encode())
    numbers = np.random.default_rng(seed)
    for tile in (tile_at(plan, number) for number in range(tile_count(plan))):
        film = SAMPLES * numbers.random((tile.height, tile.width, CHANNELS))
        film[..., NONFINITE] = 0.0
        data = encode_film(film, sample_key=sample_key, tile_id=tile.tile_id, samples=SAMPLES)
        store.put_new(layout.film(sample_key, tile.tile_id, SAMPLES), data)
    return FinalizeTask(
        job_id=request.job_id,
        plan=plan,
        request=request,
        counts=RunCounts(tiles=tile_count(plan)),
        created_at=datetime.now(UTC),
    )


class Fate(NamedTuple):
    """What happens to a finalizer: a signal to itself, after so many heartbeats of one attempt."""

    signal: signal.Signals | None = None
    beat: int = 0
    delay: float = 0.0
    """Seconds, so that it is hit anywhere between two beats."""


class Done(NamedTuple):
    result: FrameResult
    codes: Counter[str]
    """Failures of earlier attempts, by code; each is retried, as Temporal does."""


def run_attempt(store: Store, task: FinalizeTask, who: int, attempt: int, beat: Callable[[], None]) -> Any:
    """The result of finalize_frame as the worker runs it; raises as it does."""
    environment = ActivityEnvironment()
    environment.info = dataclasses.replace(
        environment.info, workflow_run_id="run", activity_id=f"finalizer-{who}", attempt=attempt
    )
    environment.on_heartbeat = lambda *details: beat()
    return environment.run(finalize.FinalizeActivities(store, f"worker-{who}").finalize_frame, task)


def finalize_until_done(url: str, task: FinalizeTask, who: int, fate: Fate, pipe: Connection) -> None:
    """Sends Done, or a text where something happened that must not."""
    finalize.LEASE_SECONDS = LEASE_SECONDS
    logging.getLogger("tessera").setLevel(logging.CRITICAL)  # its failures are counted
    store, codes, chance = open_store(url), Counter[str](), random.Random(who)
    left = [fate.beat]

    def beat() -> None:
        left[0] -= 1
        if left[0] == -1 and fate.signal is not None:
            threading.Timer(fate.delay, os.kill, (os.getpid(), fate.signal)).start()

    for attempt in itertools.count(1):
        if left[0] >= 0:  # not struck yet
            left[0] = fate.beat
        try:
            outcome = run_attempt(store, task, who, attempt, beat)
        except ApplicationError as error:
            codes[str(error.type)] += 1
            if error.non_retryable:
                pipe.send(f"finalizer {who}: {error.type}: {error}")
                return
            time.sleep(chance.uniform(0, 0.2))
            continue
        pipe.send(Done(outcome.result, codes) if outcome.result else f"finalizer {who}: {outcome}")
        return


class Read(NamedTuple):
    """What a reader saw."""

    before: int
    """Looks at which nothing was published yet."""
    whole: int
    """Looks at which it was, and everything that the manifest names had its hash."""
    wrong: list[str]


def read_until_told(url: str, job_id: str, pipe: Connection) -> None:
    """Looks at the frame as a client does, again and again, until something is sent; then sends a Read."""
    store, first, before, whole, wrong = open_store(url), b"", 0, 0, []
    while not pipe.poll(0.02):
        try:
            data, _ = store.get(layout.manifest(job_id))
        except NotFound:
            before += 1
            wrong += ["the manifest vanished"] if first else []
            continue
        faults = missing_or_unequal(store, data) + (["another manifest"] if first not in (b"", data) else [])
        first, whole, wrong = first or data, whole + (not faults), wrong + faults
    pipe.send(Read(before, whole, wrong[:10]))


def missing_or_unequal(store: Store, manifest: bytes) -> list[str]:
    frame, wrong = Manifest.decode(manifest).frame, []
    images = {image.key: image.sha256 for image in frame.images}
    for key, sha256 in (images | {film.key: film.sha256 for film in frame.films}).items():
        try:
            if stored_digest(store, key)[0] != sha256:
                wrong.append(f"{key} is another")
        except NotFound:
            wrong.append(f"{key} is missing")
    return wrong
