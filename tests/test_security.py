"""Rules that keep a farm safe: what is never imported, what names can reach, what the store may do."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts import FrameRequest, SceneRef
from store import layout
from tests.test_project import imported, python_files, relative

ROOT = Path(__file__).resolve().parents[1]
UNSAFE = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal"}
"""Reading their data runs what the data says."""

ACTION_OF = {
    "get_object": "s3:GetObject",
    "head_object": "s3:GetObject",
    "put_object": "s3:PutObject",
    "delete_object": "s3:DeleteObject",
    "list_objects_v2": "s3:ListBucket",
}


def unsafe_imports(source: str, path: str) -> list[str]:
    return [name for name in imported(source, path) if name.split(".")[0] in UNSAFE]


def test_nothing_reads_pickles() -> None:
    assert {
        relative(p): found for p in python_files() if (found := unsafe_imports(p.read_text(), "x.py"))
    } == {}
    for p in python_files():
        if relative(p) != "tests/test_security.py":
            assert "allow_pickle=True" not in p.read_text(), p


@pytest.mark.parametrize(
    "source", ["import pickle", "from pickle import loads", "def f():\n import dill as d"]
)
def test_an_unsafe_import_is_found(source: str) -> None:
    assert unsafe_imports(source, "x.py") != []


def test_the_policy_allows_the_calls_that_the_store_makes_and_no_others() -> None:
    source = "".join(path.read_text() for path in sorted((ROOT / "store").glob("s3*.py")))
    calls = set(
        re.findall(r"\b((?:get|head|put|delete|list|copy|create|upload)_[a-z0-9_]*object\w*)\b", source)
    )
    assert "put_object" in calls
    policy = json.loads((ROOT / "deploy/s3/policy.json").read_text())
    # A condition on the prefix would turn "absent" into "denied": reads of a key do not carry one.
    assert all("Condition" not in statement for statement in policy["Statement"])
    allowed = {action for statement in policy["Statement"] for action in statement["Action"]}
    assert {ACTION_OF[call] for call in calls} == allowed


@given(project=st.text(min_size=1, max_size=200), entry=st.text(max_size=300), camera=st.none() | st.text())
def test_no_name_of_a_person_leaves_its_place_in_the_store(
    project: str, entry: str, camera: str | None
) -> None:
    request = FrameRequest(
        project_id=project,
        scene=SceneRef(version="0" * 64, entry=entry),
        camera=camera,
        picture_version=1,
    )
    for place in (layout.job, layout.manifest, layout.lease, layout.dead_letter):
        key = layout.check_key(place(request.job_id))
        assert re.fullmatch(r"[a-z-]+/frame-[a-z0-9-]+\.json", key)


@given(name=st.text(max_size=50))
def test_a_name_that_could_leave_its_place_is_refused(name: str) -> None:
    """Job and tile names also come from the command line and the store."""
    try:
        keys = [layout.job(name), layout.films("0" * 64, name), layout.image("job", "attempt", name)]
    except ValueError:
        return
    for key in keys:
        parts = key.rstrip("/").split("/")
        assert len(parts) in (2, 3, 4)
        assert not any(part.startswith(".") for part in parts)
