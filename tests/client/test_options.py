"""From the command line's words to settings, and one clear line for what makes no sense."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from client.errors import BadInput
from client.options import options_of
from client.request import make_requests
from contracts import FrameRequest
from starter import main, make_parser


def request(scene: Path, *words: str) -> FrameRequest:
    given = make_parser().parse_args(["submit", str(scene), *words])
    return make_requests(scene, [1], options_of(given, "default"))[0][0]


def test_every_option_arrives(scene: Path, tmp_path: Path) -> None:
    sky = tmp_path / "sky.hdr"
    sky.write_bytes(b"a picture")
    asked = request(
        scene,
        *("--size", "640x360", "--spp", "9", "--max-depth", "3", "--seed", "5", "--fps", "25"),
        *("--camera", "left", "--environment", str(sky), "--environment-scale", "2"),
        *("--environment-rotation", "90", "--hide-environment", "--backfaces", "black"),
        *("--aperture", "0.1", "--focus", "4", "--look-from", "-1,2,3", "--look-at", "0,0,0", "--fov", "40"),
        *("--up", "z", "--project", "p", "--priority", "80", "--tile", "32"),
    )
    assert asked.settings.model_dump() == {
        "width": 640,
        "height": 360,
        "max_depth": 3,
        "seed": 5,
        "fps": 25.0,
        "environment": {
            "path": "tessera-environment/sky.hdr",
            "radiance": None,
            "scale": 2.0,
            "rotation_degrees": 90.0,
        },
        "hide_environment": True,
        "backfaces": "black",
        "aperture_radius": 0.1,
        "focus_distance": 4.0,
        "camera_override": {
            "look_from": (-1.0, 2.0, 3.0),
            "look_at": (0.0, 0.0, 0.0),
            "vertical_fov_degrees": 40.0,
            "up": "z",
        },
    }
    assert (asked.samples_per_pixel, asked.camera, asked.project_id) == (9, "left", "p")
    assert (asked.priority, asked.tile_size) == (80, 32)


def test_the_content_of_the_environment_picture_is_part_of_the_identity(scene: Path, tmp_path: Path) -> None:
    sky = tmp_path / "sky.hdr"
    sky.write_bytes(b"one")
    first = request(scene, "--environment", str(sky))
    sky.write_bytes(b"two")
    assert request(scene, "--environment", str(sky)).job_id != first.job_id


def test_a_constant_environment(scene: Path) -> None:
    asked = request(scene, "--environment", "1,0.5,0")
    assert asked.settings.environment is not None
    assert asked.settings.environment.radiance == (1.0, 0.5, 0.0)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--spp", "0"), "samples_per_pixel"),
        (("--size", "0x10"), "width"),
        (("--aperture", "0.1"), "--focus"),
        (("--environment", "/nowhere/sky.hdr"), "sky.hdr"),
        (("--environment", "1,1,nan"), "radiance"),
        (("--fov", "200"), "vertical_fov_degrees"),
        (("--tile", "500"), "tile_size"),
        (("--priority", "101"), "priority"),
    ],
)
def test_bad_values_say_where(scene: Path, words: tuple[str, ...], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        request(scene, *words)


@pytest.mark.parametrize(
    "words",
    [
        ("render", "x.obj"),
        ("render",),
        ("nonsense",),
        ("submit", "x.obj", "--size", "12"),
        ("submit", "x.obj", "--look-at", "1,2"),
    ],
)
def test_bad_usage_is_exit_code_2(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("render", "nowhere.obj", "-o", "a.exr"), "nowhere.obj"),
        (("render", "SCENE", "-o", "a.jpg"), "a.jpg"),
        (("render", "SCENE", "-o", "nofolder/a.exr"), "nofolder"),
        (("render", "SCENE", "-o", "a.exr", "--frames", "1 10"), "for example"),
        (("render", "SCENE", "-o", "a.exr", "--frames", "1-2"), "template"),
    ],
)
def test_bad_input_is_exit_code_2_and_one_line(
    scene: Path,
    words: tuple[str, ...],
    says: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(scene.parent)
    assert main([str(scene) if word == "SCENE" else word for word in words]) == 2
    printed: Any = capsys.readouterr()
    assert printed.out == ""
    assert says in printed.err and printed.err.count("\n") == 1


def test_an_absent_farm_is_exit_code_69(
    scene: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    monkeypatch.setenv("TESSERA_STORE", str(tmp_path / "store"))
    assert main(["submit", str(scene), "--json"]) == 69
    assert "127.0.0.1:1" in capsys.readouterr().err


def test_an_unusable_store_is_exit_code_69(
    scene: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TESSERA_STORE", str(scene / "below a file"))
    assert main(["submit", str(scene)]) == 69
    assert "store" in capsys.readouterr().err
