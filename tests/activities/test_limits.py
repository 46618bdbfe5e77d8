"""What a scene may ask for is the farm's to say, once: when a frame is prepared."""

from __future__ import annotations

from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError

from contracts import ErrorCode
from settings import Settings
from store import LocalStore
from tests import frames
from tracer.limits import Limits


def test_limits_are_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert Settings().limits == Limits()
    (tmp_path / "tessera.toml").write_text("[limits]\nnodes = 7\n")
    monkeypatch.setenv("TESSERA_LIMITS__TRIANGLES", "1000")
    assert Settings().limits == Limits(nodes=7, triangles=1000)
    monkeypatch.setenv("TESSERA_LIMITS__TRIANGLES", "many")
    with pytest.raises(ValueError, match=r"limits\.triangles"):
        Settings()


def test_a_scene_beyond_a_limit_is_refused_when_its_frame_is_prepared(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    request = frames.submit(store)
    with pytest.raises(ApplicationError, match="at most 10 can be rendered") as caught:
        frames.prepare(store, request, Limits(triangles=10))
    assert (caught.value.type, caught.value.non_retryable) == (ErrorCode.SCENE_UNSUPPORTED, True)


def test_a_frame_that_was_admitted_is_rendered_whatever_the_limits_are_now(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    request = frames.submit(store)
    plan = frames.render(store, request)
    assert frames.prepare(store, request, Limits(triangles=10)) == plan
