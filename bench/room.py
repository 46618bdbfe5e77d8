"""How long the control room takes to answer: --help, status, list and watch beside a farm of many frames.

    python -m bench.room [--frames N] [--repeats N]

A dev server with N frames that wait for a worker; each command is a process of its own, as a person starts
it. Printed are wall time and CPU time, the median of the repeats: on a busy machine the CPU time says more.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from temporalio.service import RPCError

from contracts import FrameRequest, FrameRun, SceneRef
from settings import connect
from store import layout
from tests.system.farm import Farm, running_farm
from workflows import attributes, queues


async def start_frames(farm: Farm, count: int) -> str:
    """The last one's job id."""
    client = await connect(farm.env["TEMPORAL_ADDRESS"])
    job = ""
    for number in range(count):
        request = FrameRequest(
            project_id="bench",
            scene=SceneRef(version="0" * 64, entry="box.glb"),
            picture_version=1,
            frame_number=number,
        )
        job = request.job_id
        farm.store.put_new(layout.job(job), request.model_dump_json().encode())
        await client.start_workflow(
            "FrameWorkflow",
            FrameRun(request=request, created_at=datetime.now(UTC)),
            id=job,
            task_queue=queues.CONTROL,
            search_attributes=attributes.of_request(request),
        )
    while True:  # the control worker has begun them all when it answers for the last one
        with suppress(RPCError):
            await client.get_workflow_handle(job).query("status")
            return job


def measure(farm: Farm, *words: str, until: str | None = None) -> tuple[float, float]:
    """(wall, CPU) seconds of one command; of one that goes on, until it has said `until` on stderr."""
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "starter", *words],
        cwd=farm.folder,
        env=farm.env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE if until else subprocess.DEVNULL,
    )
    if until is not None:
        assert process.stderr is not None
        while until.encode() not in process.stderr.readline():
            pass
        wall = time.monotonic() - began
        process.kill()
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0  # it is waited for already
    return (wall if until else time.monotonic() - began), usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--frames", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, running_farm(Path(name), f"{name}/stores", "control") as farm:
        job = asyncio.run(start_frames(farm, given.frames))
        commands: dict[str, tuple[tuple[str, ...], str | None]] = {
            "--help": (("--help",), None),
            "status": (("status", job), None),
            f"list of {given.frames}": (("list", "--limit", str(given.frames)), None),
            "watch, first line": (("watch", job), "queued"),
        }
        print(f"{'command':20} {'wall s':>8} {'CPU s':>8}")
        for title, (words, until) in commands.items():
            runs = [measure(farm, *words, until=until) for _ in range(given.repeats)]
            wall, cpu = (statistics.median(column) for column in zip(*runs, strict=True))
            print(f"{title:20} {wall:8.2f} {cpu:8.2f}", flush=True)


if __name__ == "__main__":
    main()
