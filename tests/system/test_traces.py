"""One trace shows a frame from its submit to its publication, whatever processes had a part in it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.system.conftest import SCENE
from tests.system.farm import ROOT, Farm, kill
from tests.telemetry.receiver import receiver

pytestmark = pytest.mark.system


def test_a_frame_is_one_trace_across_processes(farm: Farm) -> None:
    with receiver() as received:
        farm.env |= {"OTEL_EXPORTER_OTLP_ENDPOINT": received.address}
        workers = [farm.start_worker("control"), farm.start_worker("tiles")]
        options = ("--size", "64x64", "--tile", "32", "--spp", "4")
        farm.tessera("render", str(SCENE), "-o", "a.exr", *options)
        for worker in workers:  # what they have not sent yet they send when they leave
            kill(worker, signal.SIGTERM)
            assert worker.wait(60) == 0

        assert {span.service for span in received.spans} == {"tessera", "tessera-control", "tessera-tiles"}
        (submit,) = received.named("submit")
        assert (submit.service, submit.parent) == ("tessera", b"")
        linked = {span.name for span in received.spans if span.trace == submit.trace}
        expected = {"submit", "StartWorkflow:FrameWorkflow", "RunWorkflow:FrameWorkflow"}
        expected |= {"RunActivity:prepare_frame", "RunActivity:render_tile", "RunActivity:finalize_frame"}
        expected |= {"scene load", "render wave", "checkpoint", "lease", "merge", "upload", "publish"}
        assert linked >= expected

        services = {span.name: span.service for span in received.spans}
        assert services["RunWorkflow:FrameWorkflow"] == "tessera-control"
        assert services["publish"] == services["render wave"] == "tessera-tiles"
        (published,) = received.named("publish")
        above = received.ancestors(published)
        assert above[:2] == ["lease", "RunActivity:finalize_frame"]
        assert above[-1] == "submit"
        # Temporal's own spans hang below the start of the workflow, which is in this trace too.
        assert "StartActivity:finalize_frame" in above
        assert len(received.named("render wave")) == len(received.named("checkpoint")) == 4
        assert {received.ancestors(wave)[0] for wave in received.named("render wave")} == {
            "RunActivity:render_tile"
        }


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_nothing_is_imported_where_nobody_listens(variables: dict[str, str], wanted: bool) -> None:
    code = """
import sys, settings, worker, starter, activities.tiles, activities.finalize
from telemetry import traces
settings.tracing("test")
with traces.span("a"):
    pass
print(any(name.split(".")[0] == "opentelemetry" for name in sys.modules))
import os; sys.stdout.flush(); os._exit(0)
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(variables), capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == str(wanted), done.stderr


def environment(variables: dict[str, str]) -> dict[str, str]:
    """This process's environment with no OTEL_ variables but these."""
    return {k: v for k, v in os.environ.items() if not k.startswith("OTEL_")} | variables
