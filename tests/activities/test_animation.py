"""From a request to a film: the frame's number and the frames a second say where things are."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from activities.scenes import SceneCache
from contracts import BundleFile, FrameRequest, RenderSettings, SceneBundle, SceneRef
from store import LocalStore, layout
from store.blobs import put_blob
from tests.test_contracts import request
from tracer.build import PreparedScene
from tracer.film import new_film
from tracer.kernels.layout import SceneArrays
from tracer.render import render_samples
from tracer.scene import PixelRect

SCENES = Path(__file__).resolve().parents[2] / "scenes"
SIZE = 24


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path)


def submit(store: LocalStore, name: str) -> FrameRequest:
    """Puts one of the project's scenes of a single file into the store."""
    data = (SCENES / name).read_bytes()
    files = (BundleFile(path=name, sha256=put_blob(store, data), size=len(data)),)
    bundle = SceneBundle(entry=name, files=files)
    store.put_new(layout.bundle(bundle.version), bundle.model_dump_json().encode())
    return request(
        scene=SceneRef(version=bundle.version, entry=name), settings=RenderSettings(width=SIZE, height=SIZE)
    )


def film(prepared: PreparedScene) -> str:
    """The digest of a film of two samples."""
    pixels = new_film(SIZE, SIZE)
    render_samples(prepared, pixels, PixelRect(0, 0, SIZE, SIZE), 0, 2)
    return hashlib.sha256(pixels.tobytes()).hexdigest()


def films(store: LocalStore, asked: FrameRequest, frames: list[int]) -> dict[int, str]:
    """The films of these frames, rendered one after the other by one worker."""
    scenes = SceneCache(store, capacity=2)
    found = {}
    for frame in frames:
        request = asked.model_copy(update={"frame_number": frame})
        found[frame] = film(scenes.get(request.sample_key("engine"), request, lambda step: None))
    return found


def prepared(store: LocalStore, asked: FrameRequest, frame: int, fps: float = 24.0) -> PreparedScene:
    settings = asked.settings.model_copy(update={"fps": fps})
    request = asked.model_copy(update={"frame_number": frame, "settings": settings})
    return SceneCache(store, capacity=1).get("key", request, lambda step: None)


def same_world(a: SceneArrays, b: SceneArrays) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a.geometry, b.geometry, strict=True))


def test_a_frame_is_the_same_whichever_were_rendered_before(store: LocalStore) -> None:
    asked = submit(store, "turntable.glb")
    forth = films(store, asked, [1, 12, 30])
    assert len(set(forth.values())) == 3
    assert films(store, asked, [30, 12, 1]) == forth
    assert films(store, asked, [12]) == {12: forth[12]}


def test_time_is_the_frames_number_by_the_frames_a_second(store: LocalStore) -> None:
    asked = submit(store, "turntable.glb")
    one = prepared(store, asked, 12, fps=24.0)
    assert same_world(one.arrays, prepared(store, asked, 6, fps=12.0).arrays)
    later = prepared(store, asked, 12, fps=12.0)  # with the same random numbers as `one`
    assert not same_world(one.arrays, later.arrays)
    assert film(one) != film(later)


def test_a_still_scene_differs_between_frames_in_its_random_numbers_alone(store: LocalStore) -> None:
    asked = submit(store, "still_life.glb")
    one, other = prepared(store, asked, 1).arrays, prepared(store, asked, 40).arrays
    assert one.frame["frame"] != other.frame["frame"]
    same = other.frame.copy()
    same["frame"] = one.frame["frame"]
    assert same.tobytes() == one.frame.tobytes()
    assert same_world(one, other)
    assert film(prepared(store, asked, 12, fps=24.0)) == film(prepared(store, asked, 12, fps=12.0))
