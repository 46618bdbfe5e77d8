"""glTF: nodes and cameras that move, and animations that cannot be played."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loaders.files import Gltf
from tracer.build import prepare
from tracer.bundle import FolderFiles
from tracer.errors import SceneInvalid
from tracer.loaders import load_scene
from tracer.scene import Scene, View

SCENES = Path(__file__).resolve().parents[2] / "scenes"
HALF = math.sqrt(0.5)
RULES = ("STEP", "LINEAR", "CUBICSPLINE")
MATRIX = [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]
PLACES = [[0, 0, 0], [2, 4, 6], [8, 8, 8]]


class Moving(Gltf):
    """A triangle on node 0, and channels of one animation."""

    def __init__(self, **node: Any) -> None:
        super().__init__()
        self.show(self.primitive(), **node)
        self.json["animations"] = [{"name": "walk", "channels": [], "samplers": []}]

    def animate(
        self, path: str, keys: Any, values: Any, rule: str | None = None, node: int = 0, **kinds: Any
    ) -> Moving:
        """kinds: how the values are stored, as `Gltf.accessor` takes it."""
        animation = self.json["animations"][-1]
        sampler = {"input": self.accessor(keys), "output": self.accessor(values, **kinds)}
        animation["samplers"].append(sampler | ({} if rule is None else {"interpolation": rule}))
        target = {"node": node, "path": path}
        animation["channels"].append({"sampler": len(animation["samplers"]) - 1, "target": target})
        return self

    def at(self, time: float, number: int = 0) -> np.ndarray[Any, Any]:
        return self.load(time=time).instances[number].transform

    def place(self, time: float) -> list[float]:
        found: list[float] = self.at(time)[:3, 3].tolist()
        return found


def with_tangents(values: list[Any]) -> list[Any]:
    """For CUBICSPLINE; none of them 0."""
    return [row for value in values for row in ([3.0] * len(value), value, [-5.0] * len(value))]


def test_between_keys_and_beyond_them() -> None:
    g = Moving(translation=[9, 9, 9]).animate("translation", [1, 2, 4], PLACES)  # LINEAR is the default
    assert [g.place(t) for t in (-1, 0, 1, 1.5, 3, 4, 1e9)] == [
        [0, 0, 0], [0, 0, 0], [0, 0, 0], [1, 2, 3], [5, 6, 7], [8, 8, 8], [8, 8, 8],
    ]  # fmt: skip


def test_step_holds_until_the_next_key() -> None:
    g = Moving().animate("translation", [1, 2, 4], PLACES, "STEP")
    assert [g.place(t)[0] for t in (0, 1, 1.999, 2, 3.999, 4, 5)] == [0, 0, 0, 2, 2, 8, 8]


def test_a_step_comes_in_the_frame_that_its_key_was_stored_for() -> None:
    """A third of a second as a float32 is a little more than a third."""
    g = Moving().animate("translation", [0, 1 / 3], PLACES[:2], "STEP")
    assert [g.place(frame / 24.0)[0] for frame in (7, 8)] == [0, 2]


def test_tangents_of_a_cubic_are_per_second() -> None:
    values = [[9, 9, 9], [1, 0, 0], [2, 0, 0], [-4, 0, 0], [3, 0, 0], [7, 7, 7]]
    g = Moving().animate("translation", [0, 2], values, "CUBICSPLINE")
    # Halfway: (1 + 3) / 2 + 2 s * (2 - -4) / 8; the outermost tangents are not used.
    assert g.place(1.0) == pytest.approx([3.5, 0, 0])
    assert [g.place(t) for t in (-1, 0, 2, 3)] == [[1, 0, 0], [1, 0, 0], [3, 0, 0], [3, 0, 0]]


@pytest.mark.parametrize("rule", RULES)
@given(
    keys=st.lists(st.floats(0.0, 1e4, width=32), min_size=1, max_size=6, unique=True).map(sorted),
    data=st.data(),
)
def test_keys_are_hit_exactly(rule: str, keys: list[float], data: st.DataObject) -> None:
    value = st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3)
    values = [data.draw(value) for _ in keys]
    g = Moving().animate(
        "translation", keys, with_tangents(values) if rule == "CUBICSPLINE" else values, rule
    )
    assert [g.place(key) for key in keys] == values


@pytest.mark.parametrize("rule", RULES)
@given(
    turns=st.lists(
        st.tuples(*[st.floats(-1.0, 1.0, width=32)] * 4).filter(lambda q: max(map(abs, q)) > 0.1),
        min_size=2, max_size=4,
    ),
    time=st.floats(-1.0, 4.0),
)  # fmt: skip
def test_a_rotation_never_stretches(rule: str, turns: list[tuple[float, ...]], time: float) -> None:
    values = (
        [row for q in turns for row in ([0.5, 0, 0, 0], q, [0.5, 0, 0, 0])] if rule == RULES[2] else turns
    )
    matrix = Moving().animate("rotation", range(len(turns)), values, rule).at(time)[:3, :3]
    assert np.allclose(matrix @ matrix.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(matrix) == pytest.approx(1.0)


def test_a_rotation_turns_evenly() -> None:
    g = Moving().animate("rotation", [0, 3], [[0, 0, 0, 1], [0, 0, HALF, HALF]])  # a quarter turn about z
    for time in (0.0, 1.0, 1.5, 2.0, 3.0):
        c, s = math.cos(math.pi / 6 * time), math.sin(math.pi / 6 * time)
        assert g.at(time)[:2, :2] == pytest.approx(np.array([[c, -s], [s, c]]), abs=1e-7)


@pytest.mark.parametrize(
    ("kind", "one"), [("i1", 127), ("i2", 32767), ("u1", 255), ("u2", 65535)], ids=["i1", "i2", "u1", "u2"]
)
def test_normalized_integers_stand_for_fractions(kind: str, one: int) -> None:
    turns = [[0, 0, 0, one], [0, 0, one, 0]]
    g = Moving().animate("rotation", [0, 1], turns, dtype=kind, normalized=True)
    assert g.at(0.5)[:2, :2] == pytest.approx(np.array([[0, -1], [1, 0]]), abs=1e-12)
    g = Moving().animate("scale", [0], [[one, one, 0]], dtype=kind, normalized=True)
    assert np.diag(g.at(0.0)).tolist() == [1, 1, 0, 1]


def test_what_is_not_driven_stays_and_children_follow() -> None:
    g = Moving(translation=[0, 5, 0], rotation=[0, 0, 1, 0], scale=[2, 2, 2])
    child = g.add("nodes", mesh=0, translation=[1, 0, 0])
    g.json["nodes"][0]["children"] = [child]
    g.animate("scale", [0, 1], [[1, 1, 1], [3, 3, 3]])
    assert g.place(1.0) == [0, 5, 0]
    assert g.at(1.0, 1)[:3, 3] == pytest.approx([-3, 5, 0])  # half a turn, three times as large
    assert g.at(1.0, 1)[:3, :3] == pytest.approx(np.diag([-3, -3, 3]))


def test_cameras_and_lights_move_too() -> None:
    g = Moving()
    g.add("cameras", type="perspective", perspective={"yfov": 1})
    g.json["extensions"] = {"KHR_lights_punctual": {"lights": [{"type": "point"}]}}
    node = g.node(camera=0, extensions={"KHR_lights_punctual": {"light": 0}})
    g.animate("translation", [0, 2], [[0, 0, 0], [0, 0, 8]], node=node)
    scene = g.load(time=1.0)
    assert scene.cameras[0].transform[:3, 3].tolist() == [0, 0, 4]
    assert scene.lights[0].position == (0, 0, 4)


def test_all_animations_play_and_of_two_the_first_wins_aloud() -> None:
    g = Moving().animate("translation", [0], [[1, 2, 3]])
    g.json["animations"].append({"channels": [], "samplers": []})
    g.animate("scale", [0], [[2, 2, 2]]).animate("translation", [0], [[7, 7, 7]])
    scene = g.load()
    assert scene.instances[0].transform.tolist() == [[2, 0, 0, 1], [0, 2, 0, 2], [0, 0, 2, 3], [0, 0, 0, 1]]
    [warning] = scene.warnings
    assert "animations[1].channels[1].target: translation of nodes[0] is driven already" in warning


def test_channels_may_share_a_sampler() -> None:
    g = Moving().animate("translation", [0, 1], [[1, 2, 3], [3, 4, 5]])
    g.json["animations"][0]["channels"].append({"sampler": 0, "target": {"node": 0, "path": "scale"}})
    assert np.diag(g.at(0.5)).tolist() == [*g.place(0.5), 1] == [2, 3, 4, 1]


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ({"node": 0, "path": "weights"}, "morph targets"),
        ({"path": "pointer", "extensions": {"KHR_animation_pointer": {}}}, "no node's property"),
        ({"path": "translation"}, "no node's property"),
    ],
)  # fmt: skip
def test_what_cannot_be_played_is_at_rest_aloud(target: dict[str, Any], said: str) -> None:
    g = Moving(translation=[1, 2, 3])
    g.json["animations"][0]["channels"] = [{"sampler": 77, "target": target}]
    scene = g.load(time=1.0)
    assert scene.instances[0].transform[:3, 3].tolist() == [1, 2, 3]
    [warning] = scene.warnings
    assert "animations[0] walk" in warning and said in warning and "at rest" in warning


def broken(**changes: Any) -> Moving:
    """A good animation with one thing changed; names with two underscores lead into it."""
    g = Moving().animate("rotation", [0, 1, 2], [[0, 0, 0, 1]] * 3)
    for name, value in changes.items():
        first, _, last = name.partition("__")
        [element] = g.json["animations"][0][first]
        element = element["target"] if last in ("node", "path") else element
        if value is None:
            del element[last]
        else:
            element[last] = value
    return g


NAN, INF = float("nan"), float("inf")
BROKEN: list[tuple[Moving, str]] = [
    (broken(channels__sampler=1), r"animations\[0\]\.channels\[0\]\.sampler: 1 is not in 0\.\.0"),
    (broken(channels__sampler=None), r"channels\[0\]\.sampler: is missing"),
    (broken(channels__target=None), r"channels\[0\]\.target: is missing"),
    (broken(channels__node=5), r"channels\[0\]\.target\.node: 5 is not in 0\.\.0"),
    (broken(channels__path="spin"), r"target\.path: is none of translation"),
    (broken(channels__path=None), r"target\.path: is missing"),
    (broken(channels__path="scale"), r"accessors\[2\]\.type: .*samplers\[0\]\.output needs VEC3"),
    (broken(samplers__interpolation="BEZIER"), r"samplers\[0\]\.interpolation: is none of LINEAR"),
    (broken(samplers__interpolation="CUBICSPLINE"), r"samplers\[0\]\.output: has 3 elements; .* need 9"),
    (broken(samplers__input=77), r"samplers\[0\]\.input: 77 is not in"),
    (broken(samplers__input=None), r"samplers\[0\]\.input: is missing"),
    (broken(samplers__output=77), r"samplers\[0\]\.output: 77 is not in"),
    (broken(samplers__output=None), r"samplers\[0\]\.output: is missing"),
    (broken(samplers__input=2), r"accessors\[2\]\.type: .*input needs SCALAR"),
    (Moving().animate("scale", [0, 2, 1], PLACES), r"samplers\[0\]\.input: key 2 at 1 s is not after"),
    (Moving().animate("scale", [0, 1, 1], PLACES), r"samplers\[0\]\.input: key 2 at 1 s is not after"),
    (Moving().animate("scale", [0, NAN, 1], PLACES), r"accessors\[1\]: element 1 is not finite"),
    (Moving().animate("scale", [0, 1, 2], [[1, 1, INF]] * 3), r"accessors\[2\]: element 0 is not finite"),
    (Moving().animate("scale", [0, 1], PLACES), r"output: has 3 elements; the keys need 2"),
    (Moving().animate("scale", [0], [[1, 1, 1]], dtype="u2"), r"output: scale is stored as integers"),
    (Moving().animate("scale", [], np.zeros((0, 3))), r"accessors\[1\]\.count: 0 is not in"),
    (Moving().animate("rotation", [0, 1], [[0, 0, 0, 1], [0] * 4]), r"output: holds a quaternion"),
    (Moving(matrix=MATRIX).animate("scale", [0], [[1, 1, 1]]), r"node: nodes\[0\] is given by a matrix"),
]  # fmt: skip


@pytest.mark.parametrize(("gltf", "message"), BROKEN, ids=[message[-30:] for _, message in BROKEN])
def test_broken_animations_are_refused_by_name(gltf: Moving, message: str) -> None:
    with pytest.raises(SceneInvalid, match=message) as caught:
        gltf.load(time=0.5)
    assert str(caught.value).startswith("s.glb: ") and "\n" not in str(caught.value)


@pytest.mark.filterwarnings("error")
def test_a_signalling_nan_is_refused_like_any_other() -> None:
    g = broken()
    g.data[-4:] = b"\1\0\x80\x7f"
    with pytest.raises(SceneInvalid, match=r"accessors\[2\]: element 2 is not finite"):
        g.load()


def test_times_are_floats() -> None:
    g = broken()
    g.json["animations"][0]["samplers"][0]["input"] = g.accessor([0, 1, 2], "u1")
    with pytest.raises(
        SceneInvalid, match=r"samplers\[0\].input: the times of keys are not stored as floats"
    ):
        g.load()


def test_a_cubic_that_leads_through_no_rotation_at_all() -> None:
    turns = [[0] * 4, [0, 0, 0, 1], [0] * 4, [0] * 4, [0, 0, 0, -1], [0] * 4]
    g = Moving().animate("rotation", [0, 1], turns, "CUBICSPLINE")
    assert g.at(0.25)[:3, :3].tolist() == np.eye(3).tolist()
    with pytest.raises(
        SceneInvalid, match=r"samplers\[0\].output: leads through a quaternion of length 0 at 0.5"
    ):
        g.load(time=0.5)


def moved(scene: Scene) -> list[bytes]:
    transforms = [i.transform for i in scene.instances] + [camera.transform for camera in scene.cameras]
    return [transform.tobytes() for transform in transforms]


@pytest.mark.parametrize("name", ["still_life.glb", "cornell.gltf"])
def test_without_animations_time_says_nothing(name: str) -> None:
    first, later = (load_scene(name, FolderFiles(SCENES), time=time) for time in (0.0, 7.25))
    assert moved(first) == moved(later)
    if name == "cornell.gltf":
        assert prepare(first, View()).hash == prepare(later, View()).hash


def test_the_turntable_stands_the_same_on_every_machine() -> None:
    """A change of this digest changes the films of every animated scene: raise the picture version."""
    digest = hashlib.sha256()
    for frame in range(0, 100, 3):
        scene = load_scene("turntable.glb", FolderFiles(SCENES), time=frame / 24.0)
        assert scene.warnings == ()
        digest.update(b"".join(moved(scene)))
    assert digest.hexdigest() == "c4d2f69840dc82e951c9eb91fec54831af28241e8c1dc9972380abb70b08e054"
