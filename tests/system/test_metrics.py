"""What workers serve to Prometheus, through a frame that goes well and one that does not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.system.conftest import OPTIONS, SCENE
from tests.system.farm import Farm, free_port, kill, poll
from tests.system.metrics import Sample, scrape, total
from tests.test_alerts import used_metrics

pytestmark = pytest.mark.system

AFTER_TROUBLE = {"temporal_request_failure_total", "temporal_long_request_failure_total"}
"""The SDK's counters of failed calls come with the first one: see the test that ends the server."""


def start(farm: Farm, role: str, slots: int = 2) -> tuple[int, Any]:
    """A worker of the role that serves metrics; its port and its process."""
    port = free_port()
    farm.env["TESSERA_METRICS_ADDRESS"] = f"127.0.0.1:{port}"
    return port, farm.start_worker(role, slots)


def names(samples: list[Sample]) -> set[str]:
    return {sample.name for sample in samples}


def test_every_metric_of_dashboard_and_alerts_is_served(farm: Farm) -> None:
    control, _ = start(farm, "control")
    tiles, _ = start(farm, "tiles")
    farm.tessera("render", str(SCENE), "-o", "a.exr", "--size", "64x64", "--tile", "32", "--spp", "4")
    rendered = scrape(tiles)
    # The SDK sets its gauges of slots when it polls, and workflow metrics arrive with the last task.
    poll(lambda: "tessera_tile_rounds_total" in names(scrape(control)), "the workflow's counters are served")
    served = names(scrape(control)) | names(rendered)
    assert used_metrics() - AFTER_TROUBLE - served == set()

    assert total(rendered, "tessera_tiles_finished_total", start="fresh") == 4
    assert total(rendered, "tessera_tiles_finished_total", start="resumed") == 0
    assert total(rendered, "tessera_samples_rendered_total") == 64 * 64 * 4
    assert total(rendered, "tessera_checkpoints_total", result="written") == 4
    assert total(rendered, "tessera_scene_requests_total", result="miss") == 1
    assert total(rendered, "tessera_scene_cache_bytes") > 0
    assert total(rendered, "tessera_retries_total") == 0
    assert total(rendered, "tessera_attempt_failures_total") == 0
    assert total(rendered, "tessera_tiles_in_flight") == 0
    for event in ("acquired", "released"):
        assert total(rendered, "tessera_lease_events_total", event=event) == 1
    finalized = {"outcome": "published"}
    assert total(rendered, "tessera_finalize_duration_seconds_count", **finalized) == 1
    # A publication is one create-only write, and the buckets are ours.
    writes = {"operation": "put_new", "result": "ok"}
    assert total(rendered, "tessera_store_operation_duration_seconds_count", **writes) >= 4 + 3
    assert total(rendered, "tessera_store_operation_duration_seconds_bucket", le="0.0025") > 0
    decided = scrape(control)
    assert total(decided, "tessera_frame_transitions_total", to="completed") == 1
    assert total(decided, "tessera_dead_letters_total") == 0


def test_lost_workers_and_waiting_tiles_are_seen(farm: Farm) -> None:
    control, _ = start(farm, "control")
    _, first = start(farm, "tiles")
    # Long enough that tiles are being rendered still when the server is killed.
    farm.tessera("submit", str(SCENE), *OPTIONS, "--spp", "6000")
    farm.wait_for_films(2)
    kill(first)
    # Nobody renders, and the control worker knows: what waits, for how long, and whose frame it is.
    poll(lambda: total(scrape(control), "tessera_queue_depth", kind="tiles") > 0, "the queue has a depth")
    poll(
        lambda: total(scrape(control), "tessera_queue_oldest_task_age_seconds", kind="tiles") > 1,
        "the oldest task has an age",
    )
    assert total(scrape(control), "tessera_frames", state="dead_lettered") == 0
    poll(lambda: total(scrape(control), "tessera_frames") == 1, "the frame is counted")

    tiles, _ = start(farm, "tiles", slots=1)
    lost = {"activity": "render_tile", "code": "worker_lost"}
    poll(lambda: total(scrape(tiles), "tessera_retries_total", **lost) > 0, "a lost attempt is tried again")
    poll(lambda: total(scrape(tiles), "tessera_checkpoints_total", result="resumed") > 0, "it resumes")
    seen = scrape(tiles)
    assert total(seen, "tessera_samples_resumed_total") > 0
    assert total(seen, "tessera_tiles_in_flight", state="progressing") <= 1

    # Without the server heartbeats fail, and the SDK counts them under the name that the alert uses.
    kill(farm.processes[0])
    beat = {"operation": "RecordActivityTaskHeartbeat"}
    poll(
        lambda: total(scrape(tiles), "temporal_request_failure_total", **beat) > 0,
        "heartbeats that do not arrive are counted",
    )
    poll(lambda: names(scrape(tiles)) >= AFTER_TROUBLE, "so are polls")
    poll(
        lambda: total(scrape(control), "tessera_backlog_polls_total", result="failed") > 0,
        "the control worker goes on polling, and counts what fails",
    )
