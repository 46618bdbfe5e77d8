"""Samples that no picture can hold are counted, named, and past a bound the end of the frame."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from activities import tiles
from contracts import ErrorCode, Manifest
from starter import main
from store import LocalStore, layout
from tests import frames
from tracer import render
from tracer.film import NONFINITE

BAD = (3, 20)
"""The pixel whose third sample is not finite."""


def spoil(monkeypatch: pytest.MonkeyPatch) -> None:
    real = render.render_samples

    def spoiled(scene: Any, film: Any, tile: Any, first: int, count: int) -> None:
        real(scene, film, tile, first, count)
        x, y = BAD[0] - tile.x, BAD[1] - tile.y
        inside = 0 <= x < tile.width and 0 <= y < tile.height
        if inside and first <= 2 < first + count:
            film[y, x, NONFINITE] += 1

    monkeypatch.setattr(tiles, "render_samples", spoiled)
    monkeypatch.setattr(render, "render_samples", spoiled)


def test_they_are_counted_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(monkeypatch)
    store = LocalStore(tmp_path / "store")
    request = frames.submit(store, samples=4)
    plan = frames.render(store, request)
    with pytest.raises(ApplicationError) as raised:
        frames.finalize(store, request, plan)
    assert raised.value.type == ErrorCode.RENDER_NONFINITE and raised.value.non_retryable
    assert "1 of 3840 samples" in raised.value.message and "pixel (3, 20)" in raised.value.message

    command = raised.value.message.split("`")[1].split()
    monkeypatch.setenv("TESSERA_STORE", str(store.root))
    assert main([*command[1:], "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["nonfinite"] == "1 pixels with non-finite samples, first (3, 20), sample 2"
    assert document["same_as_stored"] is True


def test_a_few_are_only_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch)
    store = LocalStore(tmp_path / "store")
    request = frames.submit(store, samples=11)
    outcome = frames.finalize(store, request, frames.render(store, request))
    assert outcome.result is not None
    manifest = Manifest.decode(store.get(layout.manifest(request.job_id))[0])
    assert manifest.frame.nonfinite_samples == 1
