"""What a machine does to a frame, each fault on a real farm: a hung kernel, a poison tile, a full log."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.system.farm import Farm, poll
from tests.system.test_crashes import same_picture, submit

pytestmark = pytest.mark.system

HANGING_WORKER = """
import time
import worker, activities.tiles as tiles
worker.HUNG_SECONDS, worker.DRAIN_SECONDS = 1.0, 2.0
worker.sys.argv[1:] = ["--role", "tiles", "--slots", "1"]
def hang(*arguments):
    print("HANGS", flush=True)
    time.sleep(1e6)
tiles.render_samples = hang
worker.run()
"""


def test_a_worker_with_a_hung_kernel_leaves_and_its_tile_goes_on_elsewhere(
    farm: Farm, undisturbed: dict[str, Any]
) -> None:
    farm.start_worker("control")
    hanging = farm._start("hanging", [sys.executable, "-c", HANGING_WORKER])
    job = submit(farm)
    log = farm.folder / "hanging.log"
    poll(lambda: b"HANGS" in log.read_bytes() or hanging.poll(), "a kernel hangs")
    poll(lambda: hanging.poll() is not None, "the worker leaves")
    assert hanging.returncode == 70, log.read_text()[-2000:]
    assert "an attempt hangs" in log.read_text()
    farm.start_worker("tiles")
    status = farm.wait_for_status(job, "completed", "failed_terminal")
    same_picture(status, undisturbed)
    assert status["attempts"]["lost"] > 0
