"""A frame's identity: whatever can change a pixel changes it, and nothing else does."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from client.errors import BadInput
from client.request import Options, make_requests
from contracts import ErrorCode, FrameRequest

UNRELATED = "notes.txt"


def request(scene: Path, options: Options | None = None) -> FrameRequest:
    return make_requests(scene, [1], options or Options())[0][0]


def test_the_bundle_is_the_scene_and_what_it_refers_to(scene: Path) -> None:
    (scene.parent / UNRELATED).write_text("not part of it")
    _, local = make_requests(scene, [1], Options())
    assert local.bundle.entry == "tri angle.obj"
    assert [file.path for file in local.bundle.files] == ["colours.mtl", "tri angle.obj", "wood grain.png"]
    assert {path.name for path in local.paths.values()} == {f.path for f in local.bundle.files}


@given(
    name=st.sampled_from(["tri angle.obj", "colours.mtl", "wood grain.png"]),
    place=st.floats(0, 1, exclude_max=True),
    other=st.binary(min_size=1, max_size=1),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_changed_byte_of_any_file_is_another_frame(
    scene: Path, name: str, place: float, other: bytes
) -> None:
    original = request(scene)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copytree(scene.parent, Path(folder) / "copy"))
        data = bytearray((copy / name).read_bytes())
        index = int(place * len(data))
        changed = data[index : index + 1] != other
        data[index : index + 1] = other
        (copy / name).write_bytes(data)
        try:
            edited = request(copy / scene.name)
        except BadInput:  # the edit made a reference point nowhere
            return
    assert (edited.idempotency_key != original.idempotency_key) == changed
    assert (edited.job_id != original.job_id) == changed


def test_what_cannot_change_a_pixel_is_no_part_of_it(scene: Path) -> None:
    original = request(scene)
    (scene.parent / UNRELATED).write_text("new")
    os.utime(scene, (1, 1))
    assert (
        request(scene, Options(priority=99, weight=2.0, tile_size=16)).idempotency_key
        == original.idempotency_key
    )
    moved = Path(shutil.copytree(scene.parent, scene.parent.with_name("elsewhere")))
    assert request(moved / scene.name).job_id == original.job_id


@pytest.mark.parametrize(
    "changed",
    [
        Options(project="other"),
        Options(camera="left"),
        Options(samples_per_pixel=65),
        Options(settings={"seed": 1}),
        Options(settings={"width": 10, "height": 10}),
        Options(settings={"fps": 25}),
        Options(settings={"hide_environment": True}),
        Options(settings={"environment": {"radiance": (1, 1, 1)}}),
    ],
)
def test_what_can_change_a_pixel_is_part_of_it(scene: Path, changed: Options) -> None:
    assert request(scene, changed).idempotency_key != request(scene).idempotency_key


def test_each_frame_is_a_job_of_the_same_bundle(scene: Path) -> None:
    requests, _ = make_requests(scene, [1, 7, -3], Options())
    assert len({r.job_id for r in requests}) == 3
    assert len({r.scene.version for r in requests}) == 1


def test_an_environment_from_elsewhere_joins_the_bundle(scene: Path, tmp_path: Path) -> None:
    sky = tmp_path / "sky ☀.hdr"
    sky.write_bytes(b"one")
    options = Options(settings={"environment": {"path": str(sky), "scale": 2.0}})
    (asked,), local = make_requests(scene, [1], options)
    assert asked.settings.environment is not None
    assert asked.settings.environment.path == "tessera-environment/sky ☀.hdr"
    assert local.paths["tessera-environment/sky ☀.hdr"] == sky
    sky.write_bytes(b"two")
    assert request(scene, options).scene.version != asked.scene.version


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"environment": {"path": "sky.jpg"}}, "sky.jpg"),
        ({"environment": {"path": "nowhere.hdr"}}, "nowhere.hdr"),
        ({"environment": {"scale": 2.0}}, "environment: give either"),
        ({"colour": 1}, "colour"),
        ({"width": 10}, "both width and height"),
        ({"fps": float("nan")}, "fps"),
    ],
)
def test_settings_that_make_no_sense(scene: Path, settings: dict[str, object], says: str) -> None:
    with pytest.raises(BadInput, match=says) as raised:
        request(scene, Options(settings=settings))
    assert "\n" not in str(raised.value)


def test_a_pipe_is_not_read(scene: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "sky.hdr")
    with pytest.raises(BadInput, match="not a regular file"):
        request(scene, Options(settings={"environment": {"path": tmp_path / "sky.hdr"}}))


def test_a_missing_reference_has_its_code(scene: Path) -> None:
    (scene.parent / "wood grain.png").unlink()
    with pytest.raises(BadInput, match=r"wood grain\.png") as raised:
        request(scene)
    assert raised.value.code is ErrorCode.ASSET_MISSING


def test_a_long_path_and_a_root_above(tmp_path: Path) -> None:
    folder = tmp_path / ("long " * 20) / ("länger " * 12) / ("🎬" * 20)
    folder.mkdir(parents=True)
    assert len(str(folder.relative_to(tmp_path))) > 200
    (folder / "a.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
    asked = request(folder / "a.obj", replace(Options(), root=tmp_path))
    assert asked.scene.entry == (folder / "a.obj").relative_to(tmp_path).as_posix()
    with pytest.raises(BadInput, match="--root"):
        request(folder / "a.obj", Options(root=tmp_path / "elsewhere"))
