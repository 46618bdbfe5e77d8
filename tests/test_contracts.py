"""Identity: what is part of a frame's name, what is not, and that names never depend on chance."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import contracts
from contracts import (
    BundleFile,
    EnvironmentSettings,
    ErrorCode,
    FrameRequest,
    FrameRun,
    FrameStatus,
    RenderSettings,
    SceneBundle,
    SceneRef,
    Tile,
    TileStatus,
)


def request(**changes: Any) -> FrameRequest:
    base = FrameRequest(project_id="p", scene=SceneRef(version="a" * 64, entry="box.glb"), picture_version=1)
    return base.model_copy(update=changes)


CHANGES_THE_PICTURE: list[dict[str, Any]] = [
    {"project_id": "q"},
    {"scene": SceneRef(version="b" * 64, entry="box.glb")},
    {"camera": "left"},
    {"frame_number": 2},
    {"picture_version": 2},
    {"settings": RenderSettings(seed=1)},
    {"settings": RenderSettings(width=8, height=8)},
    {"settings": RenderSettings(max_depth=3)},
    {"settings": RenderSettings(fps=25)},
    {"settings": RenderSettings(environment=EnvironmentSettings(radiance=(1, 1, 1)))},
    {"settings": RenderSettings(backfaces="black")},
    {"settings": RenderSettings(hide_environment=True)},
]


@pytest.mark.parametrize("change", CHANGES_THE_PICTURE, ids=lambda change: next(iter(change)))
def test_what_changes_the_picture_changes_every_name(change: dict[str, Any]) -> None:
    ours, other = request(), request(**change)
    assert other.idempotency_key != ours.idempotency_key
    assert other.job_id != ours.job_id
    assert other.sample_key("e") != ours.sample_key("e")


@pytest.mark.parametrize("change", [{"priority": 90}, {"weight": 3.0}, {"tile_size": 32}])
def test_what_cannot_change_a_pixel_is_no_part_of_the_identity(change: dict[str, Any]) -> None:
    assert request(**change).job_id == request().job_id
    assert request(**change).sample_key("e") == request().sample_key("e")


def test_more_samples_are_another_frame_of_the_same_sample_sequence() -> None:
    few, many = request(samples_per_pixel=16), request(samples_per_pixel=64)
    assert few.idempotency_key != many.idempotency_key
    assert few.sample_key("e") == many.sample_key("e")
    assert few.sample_key("e") != few.sample_key("f")


def test_names_are_the_same_for_ever() -> None:
    """A changed value here orphans every film and manifest that people have: raise it on purpose only."""
    assert request().job_id == "frame-p-box-default-0001-" + request().idempotency_key[:16]
    assert request().idempotency_key == KEY
    assert request().sample_key("engine") == SAMPLE_KEY


KEY = "82d770e420a997146551ab66df203e1596ffe02b15745dab995f72a09783f058"
SAMPLE_KEY = "ed651a3857a7416128a382a980f09d1761fca1a625c4569aebb8af55d1961b18"


@given(st.text(min_size=1, max_size=40), st.text(min_size=1, max_size=300), st.integers(-5, 10**6))
def test_job_ids_are_plain_whatever_things_are_called(project: str, entry: str, frame: int) -> None:
    scene = SceneRef(version="a" * 64, entry=entry)
    job_id = request(project_id=project, scene=scene, frame_number=frame).job_id
    assert job_id.startswith("frame-") and len(job_id) < 150
    assert all(c.isascii() and (c.isalnum() or c == "-") for c in job_id)


def test_scene_version_depends_on_paths_and_contents_and_not_on_order() -> None:
    one = BundleFile(path="a.bin", sha256="1" * 64, size=1)
    two = BundleFile(path="b.bin", sha256="2" * 64, size=1)
    version = SceneBundle(entry="s.gltf", files=(one, two)).version
    assert SceneBundle(entry="s.gltf", files=(two, one)).version == version
    renamed = two.model_copy(update={"path": "c.bin"})
    assert SceneBundle(entry="s.gltf", files=(one, renamed)).version != version
    edited = two.model_copy(update={"sha256": "3" * 64})
    assert SceneBundle(entry="s.gltf", files=(one, edited)).version != version


def test_users_may_not_misspell_and_parts_tolerate_new_fields() -> None:
    with pytest.raises(ValidationError, match="sead"):
        RenderSettings.model_validate({"sead": 1})
    assert Tile.model_validate({"x": 0, "y": 0, "width": 1, "height": 1, "news": 1}).area == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"width": 10},
        {"width": 0, "height": 10},
        {"aperture_radius": 0.1},
        {"environment": {}},
        {"environment": {"radiance": (1, 1, -1)}},
        {"environment": {"radiance": (1, 1, float("nan"))}},
        {"camera_override": {"vertical_fov_degrees": 180}},
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        RenderSettings.model_validate(settings)


def test_models_survive_json() -> None:
    run = FrameRun(request=request(), rendered=((0, 3), (5, 6)), standing={4: 7})
    assert FrameRun.model_validate_json(run.model_dump_json()) == run


@pytest.mark.parametrize("kind", [FrameStatus, TileStatus, ErrorCode])
def test_every_state_and_code_has_its_sentence(kind: type) -> None:
    tree = ast.parse(Path(contracts.__file__).read_text())
    body = next(n.body for n in tree.body if isinstance(n, ast.ClassDef) and n.name == kind.__name__)
    for member, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(member, ast.Assign):
            assert isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant), ast.unparse(member)
            assert str(after.value.value).endswith("."), ast.unparse(member)
