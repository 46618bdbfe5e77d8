"""A client's session: the store and, only when it is needed, the farm."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple, TypeVar

from temporalio.client import Client
from temporalio.service import RPCError

from client.errors import BadInput, Unreachable, client_errors, is_refusal
from client.farm import FarmRecord, farm, farm_client, running_farm
from client.fetch import fetch
from client.progress import Progress
from client.published import (
    answered,
    is_job_name,
    published,
    recorded,
    recorded_request,
    status_of,
)
from client.request import LocalBundle
from client.server import DATABASE
from client.status import QUERY_TIMEOUT, job_status
from client.submit import start
from client.upload import record, upload
from client.watch import watch
from contracts import FrameRequest, JobStatus, Manifest
from settings import Settings, connect, temporal_address, tracing
from store import Store, open_store
from telemetry.traces import span

CONNECT_SECONDS = 5.0
"""How long the first connection is tried: a server that is being restarted, not one that is not there."""
OUTAGE_SECONDS = 180.0
"""How long Temporal may be away later on before the client gives up. The frame itself does not mind."""
LONGEST_PAUSE = 2.0
SETTLE_SECONDS = 0.05
SUBMIT_PATIENCE = timedelta(seconds=1)
"""What a submit grants the workflow for an answer: it is accepted, whether a worker is there or not."""

Answer = TypeVar("Answer")


class Submitted(NamedTuple):
    status: JobStatus
    note: str | None
    """Something that the person should know."""


class Session:
    """Made by `session`. The farm is connected to on the first call that needs it: a published frame is
    answered by the store alone, in no time and with Temporal away."""

    def __init__(self, settings: Settings, stack: AsyncExitStack) -> None:
        self.settings = settings
        self.embedded = temporal_address() is None
        self.farm: FarmRecord | None = None
        """The embedded farm, once it is in use."""
        self.store: Store = open_store(settings.store_url)
        self._stack = stack
        self._client: Client | None = None
        self._is_client = False
        self._progress: dict[str, Progress] = {}

    async def client(self) -> Client:
        """The connection to Temporal, starting the embedded farm if that is what is configured."""
        if self.embedded and self._client is not None and running_farm(self.settings.state_dir) != self.farm:
            self._client = None  # the farm was killed: its successor may have another address
        if self._client is None:
            address = temporal_address()
            if self.embedded:
                if not self._is_client:
                    await self._stack.enter_async_context(farm_client(self.settings))
                    self._is_client = True
                self.farm = await farm(self.settings)
                address = self.farm.address
            self._client = await _connect(address)
        return self._client

    async def settle(self) -> None:
        """Lets the threads of Temporal's client let go of Python: see starter.run, which programs that call
        us from Python do not have."""
        if self._client is not None:
            await asyncio.sleep(SETTLE_SECONDS)

    async def reach(self, call: Callable[[Client], Awaitable[Answer]]) -> Answer:
        """What `call` gets from Temporal; it is called again while Temporal is away. RPCError: refused."""
        away_since, pause = None, 0.1
        while True:
            client = await self.client()
            try:
                return await call(client)
            except RPCError as error:
                if is_refusal(error):
                    raise
                if away_since is None:
                    away_since = time.monotonic()
                    print("Temporal does not answer; trying again", file=sys.stderr)
                if time.monotonic() - away_since > OUTAGE_SECONDS:
                    raise Unreachable(f"Temporal is away: {error.message}") from error
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def submit(self, requests: Sequence[FrameRequest], local: LocalBundle) -> list[Submitted]:
        """Submits frames of one bundle. What is published already is answered by its manifest."""
        with span("submit", frames=len(requests), job_id=requests[0].job_id if requests else ""):
            return await self._submit(requests, local)

    async def _submit(self, requests: Sequence[FrameRequest], local: LocalBundle) -> list[Submitted]:
        manifests = [published(self.store, r.job_id, r.idempotency_key) for r in requests]
        new = [request for request, found in zip(requests, manifests, strict=True) if found is None]
        if new:
            upload(self.store, local, new)
        submitted = []
        for request, manifest in zip(requests, manifests, strict=True):
            if manifest is not None:
                submitted.append(Submitted(answered(status_of(manifest)), None))
            else:
                submitted.append(await self._start(request))
        return submitted

    async def submit_again(self, request: FrameRequest) -> Submitted:
        """Submits a frame of a bundle that is in the store already."""
        manifest = published(self.store, request.job_id, request.idempotency_key)
        if manifest is not None:
            return Submitted(answered(status_of(manifest)), None)
        record(self.store, request)
        return await self._start(request)

    async def _start(self, request: FrameRequest) -> Submitted:
        note = await self.reach(lambda client: start(client, self.store, request))
        return Submitted(await self._ask(request.job_id, SUBMIT_PATIENCE), note)

    async def status(self, job_id: str) -> JobStatus:
        """Raises BadInput for an unknown job. What the store alone can answer starts no embedded farm."""
        if not is_job_name(job_id):
            raise self._no_such_job(job_id)
        if self.embedded and self._client is None and running_farm(self.settings.state_dir) is None:
            found = recorded(self.store, job_id)
            if found is not None and (found.result is not None or self.is_new):
                return found
            if self.is_new:
                raise self._no_such_job(job_id)
        return await self._ask(job_id, QUERY_TIMEOUT)

    def progress(self, job_id: str) -> Progress:
        """What this command's looks at the job have learned."""
        return self._progress.setdefault(job_id, Progress(self.store, job_id))

    async def _ask(self, job_id: str, patience: timedelta) -> JobStatus:
        progress = self.progress(job_id)
        status = await self.reach(lambda client: job_status(client, self.store, job_id, patience, progress))
        if status is None:
            raise self._no_such_job(job_id)
        if status.status.is_final:  # of thousands of frames in one command, what was learned is not kept
            self._progress.pop(job_id, None)
        return status

    def _no_such_job(self, job_id: str) -> BadInput:
        return BadInput(f"{job_id[:200]!r}: no such job in {self.place}; see `tessera list`")

    @property
    def place(self) -> str:
        """Where this session looks for jobs, in words: most often the wrong folder is the whole trouble."""
        url = self.settings.store_url
        store = url if "://" in url else str(Path(url).expanduser().resolve())
        if not self.embedded:
            return f"Temporal at {temporal_address()} and the store {store}"
        beside = f" and the store {store}" if self.settings.store else ""
        return (
            f"the local farm of {self.settings.state_dir.resolve()}{beside} (each folder has its own; "
            "TESSERA_STATE_DIR names another)"
        )

    @property
    def is_new(self) -> bool:
        """Whether this is an embedded farm that has never run, so that there is nothing to ask it."""
        return self.embedded and not (self.settings.state_dir / DATABASE).exists()

    async def wait(self, job_id: str, on_status: Callable[[JobStatus], None]) -> JobStatus:
        """Watches the frame until it has ended or is parked."""
        return await watch(lambda: self.status(job_id), on_status)

    def request(self, job_id: str) -> FrameRequest:
        """What the job was asked to be. Raises BadInput for an unknown job."""
        request = recorded_request(self.store, job_id) if is_job_name(job_id) else None
        if request is None:
            raise self._no_such_job(job_id)
        return request

    def manifest(self, job_id: str) -> Manifest | None:
        return published(self.store, job_id) if is_job_name(job_id) else None

    def fetch(self, job_id: str, outputs: Sequence[Path], exposure: float | None = 0.0) -> None:
        """Writes a published frame's picture. exposure: see client.fetch."""
        manifest = self.manifest(job_id)
        if manifest is None:
            raise Unreachable(
                f"{job_id}: completed, but its manifest is gone from the store; submit it again"
            )
        fetch(self.store, manifest, outputs, exposure)


async def _connect(address: str | None) -> Client:
    until = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            return await connect(address)
        except RuntimeError as error:
            if time.monotonic() > until:
                raise Unreachable(f"Temporal at {address} cannot be reached: {error}") from error
        await asyncio.sleep(0.2)


@asynccontextmanager
async def session(settings: Settings) -> AsyncIterator[Session]:
    """A session for the block. What goes wrong below leaves it as a client.errors.ClientError."""
    tracing("tessera")  # before the first span, which is opened before there is a connection
    with client_errors():
        async with AsyncExitStack() as stack:
            opened = Session(settings, stack)
            try:
                yield opened
            finally:
                await opened.settle()
