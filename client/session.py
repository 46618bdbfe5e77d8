"""A client's session: the store and, only when it is needed, the farm."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from temporalio.client import Client

from client.errors import Unreachable
from client.farm import embedded_farm
from client.fetch import fetch
from client.request import LocalBundle
from client.status import job_status
from client.submit import published, start, status_of, upload
from client.watch import Reporter, watch
from contracts import FrameRequest, FrameStatus, JobStatus, Manifest
from settings import Settings, connect, temporal_address
from store import Store, StoreError, open_store


class Session:
    """Use in `async with`. The farm is connected to on the first call that needs it: a published frame
    is answered by the store alone, in no time and with Temporal away."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.embedded = temporal_address() is None
        self.web_ui: str | None = None
        self._stack = AsyncExitStack()
        self._client: Client | None = None
        try:
            self.store: Store = open_store(settings.store_url)
        except StoreError as error:
            raise Unreachable(str(error)) from error

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    async def client(self) -> Client:
        """The connection to Temporal, starting the embedded farm if that is what is configured."""
        if self._client is None:
            address = None
            if self.embedded:
                record = self._stack.enter_context(embedded_farm(self.settings))
                address, self.web_ui = record.address, record.ui
            try:
                self._client = await connect(address)
            except RuntimeError as error:
                where = address or temporal_address()
                raise Unreachable(f"Temporal at {where} cannot be reached: {error}") from error
        return self._client

    async def submit(self, request: FrameRequest, local: LocalBundle) -> tuple[JobStatus, str | None]:
        """Submits one frame: (its status, a note for the person or None)."""
        manifest = published(self.store, request.job_id, request.idempotency_key)
        if manifest is not None:
            return status_of(manifest, fresh=True), None
        upload(self.store, request, local)
        client = await self.client()
        note = await start(client, self.store, request)
        return await job_status(client, self.store, request.job_id), note

    async def status(self, job_id: str) -> JobStatus:
        """Raises BadInput for an unknown job. A published frame needs no farm to be started."""
        if self.embedded and self._client is None and published(self.store, job_id) is not None:
            return await job_status(None, self.store, job_id)
        return await job_status(await self.client(), self.store, job_id)

    async def wait(self, job_id: str, reporter: Reporter) -> JobStatus:
        """Watches the frame until it has ended or is parked."""
        client = await self.client()
        return await watch(lambda: job_status(client, self.store, job_id), reporter)

    def manifest(self, job_id: str) -> Manifest | None:
        return published(self.store, job_id)

    def fetch(self, job_id: str, outputs: list[Path], exposure: float | None) -> None:
        manifest = published(self.store, job_id)
        if manifest is None:
            raise Unreachable(f"{job_id}: completed, but its manifest is not in the store")
        fetch(self.store, manifest, outputs, exposure)


@asynccontextmanager
async def session(settings: Settings | None = None) -> AsyncIterator[Session]:
    async with Session(settings or Settings()) as opened:
        yield opened


def is_done(status: JobStatus) -> bool:
    return status.status is FrameStatus.COMPLETED
