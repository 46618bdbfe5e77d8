"""The worker: one process in one role. Everything is put together here and nowhere else.

control    runs workflows only, and stays light
tiles      renders, one thread a slot, and has a thread each for prepare and finalize
isolated   renders one tile at a time in a process of its own, which the tile may kill
all        supervises one of each and restarts what dies
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from temporalio.client import Client
from temporalio.common import MetricMeter
from temporalio.worker import Worker

from activities.attempt import silence
from contracts import ErrorCode, FrameStatus
from settings import Settings, connect
from store import StoreError
from telemetry.attempts import AttemptInterceptor
from telemetry.backlog import BacklogPoller
from telemetry.logs import configure_logs
from telemetry.metrics import Metrics, counter
from telemetry.process import places, watch_process
from telemetry.traces import end_traces
from workflows import policies, queues

HUNG_SECONDS = 60.0
"""An attempt that has been silent for so long hangs. Six heartbeat timeouts: its tile is elsewhere by now."""
LOOK_SECONDS, HUNG_LOOKS = 0.5, 10
DRAIN_SECONDS = policies.GRACEFUL_SHUTDOWN.total_seconds() + 5
"""How long a leaving worker waits for its attempts: they are given GRACEFUL_SHUTDOWN."""
CONNECT_SECONDS = 60.0
"""How long a worker waits for a Temporal that is not there yet."""
UNREACHABLE, NOT_DRAINED = 69, 70
"""Exit codes: Temporal or the store cannot be reached; an attempt did not end and was left behind."""

ROLES = ("control", "tiles", "isolated")
SUPERVISED = "--supervised"
log = logging.getLogger("tessera.worker")


def identity(role: str) -> str:
    """A name that no two processes share, also not two containers with one host name and pid."""
    return f"{role}@{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(2)}"


def control_workers(client: Client, name: str) -> list[Worker]:
    from workflows.frame import FrameWorkflow

    return [
        Worker(
            client,
            task_queue=queues.CONTROL,
            workflows=[FrameWorkflow],
            identity=name,
            sticky_queue_schedule_to_start_timeout=policies.STICKY_TIMEOUT,
            graceful_shutdown_timeout=policies.GRACEFUL_SHUTDOWN,
        )
    ]


def meter_of(client: Client) -> MetricMeter:
    runtime = client.service_client.config.runtime
    assert runtime is not None  # connect() made it
    return runtime.metric_meter


def render_workers(
    client: Client, settings: Settings, role: str, name: str, metrics: Metrics
) -> list[Worker]:
    """The workers of a rendering process. They share the store, the scenes and the compiled kernels."""
    from activities.finalize import FinalizeActivities
    from activities.isolated import IsolatedActivities
    from activities.prepare import PrepareActivities
    from activities.records import RecordActivities
    from activities.scenes import SceneCache
    from activities.scratch import remove_leftovers
    from activities.tiles import TileActivities
    from store import open_store
    from store.blobs import prove_writable
    from store.measured import MeasuredStore
    from tracer import engine
    from tracer.render import warm

    log.info("kernels ready", extra={"seconds": round(warm(), 2)})
    fingerprint = engine.fingerprint()
    if removed := remove_leftovers(Path(tempfile.gettempdir())):
        log.info("removed what killed finalizers left", extra={"folders": removed})
    store = MeasuredStore(open_store(settings.store_url), metrics.observe_store)
    prove_writable(store)
    scenes = SceneCache(store, settings.cached_scenes, metrics=metrics)
    tiles = TileActivities(store, scenes, settings.checkpoint_seconds, name, metrics)

    def worker(queue: str, slots: int, activities: list[object]) -> Worker:
        return Worker(
            client,
            task_queue=queue,
            activities=activities,  # type: ignore[arg-type]
            # As many threads as slots: an attempt's time runs from the poll, not from its thread.
            activity_executor=ThreadPoolExecutor(slots, thread_name_prefix=queue),
            max_concurrent_activities=slots,
            max_heartbeat_throttle_interval=policies.HEARTBEAT_THROTTLE,
            default_heartbeat_throttle_interval=policies.HEARTBEAT_THROTTLE,
            graceful_shutdown_timeout=policies.GRACEFUL_SHUTDOWN,
            identity=name,
            interceptors=[AttemptInterceptor(metrics, name)],
        )

    if role == "isolated":
        alone = IsolatedActivities(settings.store_url, settings.checkpoint_seconds, name)
        return [worker(queues.isolated(fingerprint), 1, [alone.render_tile])]
    prepare = PrepareActivities(store, scenes, fingerprint, name, limits=settings.limits, metrics=metrics)
    records = RecordActivities(store, name)
    service: list[object] = [
        prepare.prepare_frame,
        tiles.newest_samples,
        records.record_job,
        records.record_dead_letter,
        records.remove_dead_letter,
        records.discard_frame,
    ]
    return [
        worker(queues.tiles(fingerprint), settings.slots, [tiles.render_tile]),
        worker(queues.SERVICE, 1, service),
        worker(queues.finalize(fingerprint), 1, [FinalizeActivities(store, name, metrics).finalize_frame]),
    ]


async def run_role(role: str, settings: Settings, supervisor: int | None = None) -> bool:
    """Serves until SIGTERM or SIGINT, then drains: running tiles store what they have and yield. False where
    one of them does not.

    With the process id of a supervisor it also drains when that one is gone.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    client = await connect_patiently(settings, f"tessera-{role}")
    name = identity(role)
    metrics = Metrics(meter_of(client))
    if role == "control":
        await register_search_attributes(client)
        workers = control_workers(client, name)
    else:
        workers = await asyncio.to_thread(render_workers, client, settings, role, name, metrics)
    log.info("polling", extra={"role": role, "worker": name, "queues": [w.task_queue for w in workers]})
    running = [asyncio.create_task(worker.run()) for worker in workers]
    gauges = start_gauges(client, settings, role, metrics) if settings.metrics_address else []
    stopping = asyncio.create_task(_wait(stop, supervisor))
    await asyncio.wait([*running, stopping], return_when=asyncio.FIRST_COMPLETED)
    log.info("draining", extra={"role": role})
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            await asyncio.gather(*(worker.shutdown() for worker in workers))
            await asyncio.gather(*running)  # raises what ended a worker, if it was not the signal
    except TimeoutError:
        log.error("an attempt does not end: leaving without it")
        return False
    for task in (stopping, *gauges):
        task.cancel()
    return True


async def connect_patiently(settings: Settings, service: str) -> Client:
    """Connects, also to a Temporal that starts a little later than its workers. Raises ConnectionError."""
    until, pause = time.monotonic() + CONNECT_SECONDS, 0.1
    while True:
        try:
            return await connect(metrics_address=settings.metrics_address, service=service)
        except RuntimeError as error:
            if time.monotonic() > until:
                raise ConnectionError(f"Temporal cannot be reached: {error}") from error
            log.warning("Temporal cannot be reached, trying again", extra={"error": str(error)[:200]})
        await asyncio.sleep(pause)
        pause = min(2 * pause, 5.0)


def start_gauges(
    client: Client, settings: Settings, role: str, metrics: Metrics
) -> list[asyncio.Task[NoReturn]]:
    """Sets what nobody counts, for as long as the process lives. Nothing of it may end a worker."""
    from workflows import attributes
    from workflows.metrics import DEAD_LETTERS

    works: list[Coroutine[Any, Any, NoReturn]] = [
        watch_process(metrics, {} if role == "control" else places(settings.store_url))
    ]
    if role == "control":
        counter(meter_of(client), *DEAD_LETTERS, code=ErrorCode)
        states = [status.value for status in FrameStatus if not status.is_final]
        poller = BacklogPoller(
            client,
            meter_of(client),
            states=states,
            queues=queues.FIXED,
            queues_of=queues.of_engine,
            status=attributes.STATUS,
            engine=attributes.ENGINE,
        )
        works.append(poller.run())
    tasks = [asyncio.create_task(work) for work in works]
    for task in tasks:
        task.add_done_callback(_tell_of_end)
    return tasks


def _tell_of_end(task: asyncio.Task[NoReturn]) -> None:
    if not task.cancelled():
        log.error("gauges stand still from now on", exc_info=task.exception())


async def _wait(stop: asyncio.Event, supervisor: int | None) -> None:
    """Waits for the signal, until another process has inherited this one from its supervisor, or until an
    attempt hangs: Temporal has given its tile to another worker, but its slot is lost to this process."""
    hung = 0
    while not stop.is_set() and supervisor in (None, os.getppid()):
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), timeout=LOOK_SECONDS)
        # Looks, not time: a process that was stopped and goes on does not hang.
        hung = hung + 1 if silence() > HUNG_SECONDS else 0
        if hung > HUNG_LOOKS:
            log.error("an attempt hangs: leaving, to be started again", extra={"seconds": round(silence())})
            return


async def register_search_attributes(client: Client) -> None:
    """Adds the attributes that this namespace does not have; without them no frame could start."""
    from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest

    from workflows import attributes

    listed = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=client.namespace)
    )
    known = listed.custom_attributes
    missing = {key.name: int(key.indexed_value_type) for key in attributes.ALL if key.name not in known}
    if missing:
        await client.operator_service.add_search_attributes(
            AddSearchAttributesRequest(namespace=client.namespace, search_attributes=missing)  # type: ignore[arg-type]
        )


def supervise(settings: Settings) -> int:
    """Runs one process of each role and starts again what dies, until a signal; then drains them."""
    stopping = False

    def stop(_number: int, _frame: object) -> None:
        nonlocal stopping
        stopping = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    children: dict[str, subprocess.Popen[bytes]] = {}
    next_start = dict.fromkeys(ROLES, 0.0)
    while not stopping:
        for place, role in enumerate(ROLES):
            child = children.get(role)
            if child is not None and child.poll() is None:
                continue
            if child is not None:
                log.warning("worker died, starting it again", extra={"role": role, "code": child.returncode})
                del children[role]
                next_start[role] = time.monotonic() + 1.0  # never a tight loop of dying processes
            elif time.monotonic() >= next_start[role]:
                children[role] = subprocess.Popen(
                    [
                        sys.executable,
                        "-m",
                        "worker",
                        "--role",
                        role,
                        "--slots",
                        str(settings.slots),
                        SUPERVISED,
                    ],
                    env=os.environ | nth_metrics_address(settings, place),
                )
        time.sleep(0.1)
    for child in children.values():
        child.terminate()
    for child in children.values():
        child.wait()
    return 0


def nth_metrics_address(settings: Settings, number: int) -> dict[str, str]:
    """The environment of a supervised worker: two cannot serve on one port, so each gets the next one."""
    if not settings.metrics_address:
        return {}
    host, _, port = settings.metrics_address.rpartition(":")
    return {"TESSERA_METRICS_ADDRESS": f"{host}:{int(port) + number}"}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="worker", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--role", choices=(*ROLES, "all"), default="all")
    parser.add_argument("--slots", type=int, help="tiles rendered at the same time (default: cores)")
    parser.add_argument(SUPERVISED, action="store_true", help="leave when the starting process is gone")
    options = parser.parse_args(argv)
    configure_logs()
    supervisor = os.getppid() if options.supervised else None
    settings = Settings() if options.slots is None else Settings(slots=options.slots)
    if options.role == "all":
        return supervise(settings)
    try:
        drained = asyncio.run(run_role(options.role, settings, supervisor))
    except (ConnectionError, StoreError) as error:  # its message says all
        log.error("cannot work", extra={"error": str(error)[:2000]})
        return UNREACHABLE
    return 0 if drained else NOT_DRAINED


def run() -> NoReturn:
    """The program. It leaves the interpreter's own end out: there a thread of Temporal's core can wait for
    ever for Python (temporalio/sdk-python issue 300), and a worker that has drained has to be gone."""
    code = main()
    end_traces()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    run()
