"""Traces whose receiver is away, or whose extra is not installed, are nobody's trouble."""

from __future__ import annotations

import sys
import threading

import pytest

from telemetry import traces


def test_a_receiver_that_hangs_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    monkeypatch.setattr(traces, "FLUSH_SECONDS", 0.01)
    monkeypatch.setattr(traces._Tracing, "flush", ended.wait)
    traces.end_traces()  # would never return
    ended.set()


def test_a_missing_extra_is_told_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "temporalio.contrib.opentelemetry", None)
    assert traces.start_traces("test") is None
    assert "install tessera[otel]" in caplog.text
    with traces.span("a", number=1):
        pass
