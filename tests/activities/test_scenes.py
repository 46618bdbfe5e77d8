"""The scene cache: one build for all slots, heartbeats that tell of progress, nothing kept for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from activities.scenes import SceneCache
from contracts import FrameRequest
from store import Store
from tests.test_contracts import request
from tracer.build import PreparedScene
from tracer.errors import SceneInvalid
from tracer.limits import Limits
from tracer.scene import Progress

NO_STORE = cast(Store, None)


class Built:
    """Stands for a prepared scene; the cache asks for nothing but its size."""

    nbytes = 7


def scene_cache(build: Callable[[Progress], Any], capacity: int = 2) -> SceneCache:
    def adapter(store: Store, asked: FrameRequest, progress: Progress, limits: Limits) -> PreparedScene:
        return cast(PreparedScene, build(progress))

    return SceneCache(NO_STORE, capacity, adapter)


def no_beat(step: str) -> None:
    pass


def test_slots_share_one_build() -> None:
    builds, gate = [], threading.Event()

    def build(progress: Progress) -> Built:
        builds.append(1)
        assert gate.wait(20)
        return Built()

    cache = scene_cache(build)
    with ThreadPoolExecutor(4) as slots:
        waiting = [slots.submit(cache.get, "key", request(), no_beat) for _ in range(4)]
        gate.set()
        scenes = {id(slot.result(20)) for slot in waiting}
    assert (len(builds), len(scenes)) == (1, 1)


def test_who_waits_beats_while_the_build_moves_and_is_silent_while_it_hangs() -> None:
    """A thread that beat by itself would keep a hung build alive for ever."""
    building, move, end, moved = (threading.Event() for _ in range(4))

    def build(progress: Progress) -> Built:
        building.set()
        assert move.wait(20)
        progress("a step")
        moved.set()
        assert end.wait(20)
        return Built()

    cache = scene_cache(build)
    beats = threading.Semaphore(0)
    with ThreadPoolExecutor(2) as slots:
        first = slots.submit(cache.get, "key", request(), no_beat)
        assert building.wait(20)
        second = slots.submit(cache.get, "key", request(), lambda step: beats.release())
        assert beats.acquire(timeout=20)  # it says once that it waits
        assert not beats.acquire(timeout=1.2)  # the build hangs: two looks, no beat
        move.set()
        assert moved.wait(20)
        assert beats.acquire(timeout=20)
        end.set()
        assert first.result(20) is second.result(20)


def test_a_build_that_was_stopped_is_taken_up_by_the_next_slot() -> None:
    building, stop = threading.Event(), threading.Event()
    builds = []

    class Stopped(BaseException):
        pass

    def build(progress: Progress) -> Built:
        builds.append(1)
        if len(builds) == 1:
            building.set()
            assert stop.wait(20)
            raise Stopped
        return Built()

    cache = scene_cache(build)
    with ThreadPoolExecutor(2) as slots:
        first = slots.submit(cache.get, "key", request(), no_beat)
        assert building.wait(20)
        second = slots.submit(cache.get, "key", request(), no_beat)
        stop.set()
        with pytest.raises(Stopped):
            first.result(20)
        assert isinstance(second.result(20), Built)


def test_an_error_is_not_remembered() -> None:
    builds = []

    def build(progress: Progress) -> Built:
        builds.append(1)
        if len(builds) == 1:
            raise SceneInvalid("a blob was away")
        return Built()

    cache = scene_cache(build)
    with pytest.raises(SceneInvalid):
        cache.get("key", request(), no_beat)
    assert isinstance(cache.get("key", request(), no_beat), Built)


def test_only_the_newest_scenes_are_kept() -> None:
    builds = []

    def build(progress: Progress) -> Built:
        builds.append(1)
        return Built()

    cache = scene_cache(build, capacity=2)
    for key in "abab":
        cache.get(key, request(), no_beat)
    assert len(builds) == 2
    for key in "caab":  # c pushes a out, a pushes b out, b comes back
        cache.get(key, request(), no_beat)
    assert len(builds) == 5
