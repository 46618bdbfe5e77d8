"""`tessera history`: a frame's life in plain lines, from Temporal's history and the store's records."""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from temporalio.client import Client

from client.commands import print_document
from client.dead_letters import letters
from client.errors import ExitCode
from client.published import tile_area
from client.rate import count, duration
from client.session import Session, session
from codec import decoded
from contracts import Manifest
from settings import Settings
from store import layout


@dataclass
class Entry:
    """One thing that happened. Of an attempt all fields are known, of anything else only at and what."""

    at: datetime
    what: str
    """What happened, or why the attempt ended."""
    tile: str | None = None
    """Ids of the attempt's tiles, or the name of the step."""
    attempt: int | None = None
    worker: str | None = None
    seconds: float | None = None
    samples: int | None = None
    """Pixels times samples that it rendered; of a lost one, as far as its last heartbeat told."""

    def line(self) -> str:
        if self.tile is None:
            return f"{self.at:%F %T}  {self.what}"
        took = "" if self.seconds is None else f" {duration(self.seconds)},"
        made = "" if self.samples is None else f" {count(self.samples)} samples,"
        where = self.worker or "nobody"
        return f"{self.at:%F %T}  {self.tile} attempt {self.attempt} on {where}:{took}{made} {self.what}"


async def show_history(given: argparse.Namespace, settings: Settings) -> ExitCode:
    async with session(settings) as opened:
        opened.request(given.job)  # refuses an unknown job
        entries = [] if opened.is_new else await opened.reach(lambda client: from_temporal(client, given.job))
        entries += from_store(opened, given.job, complete=bool(entries))
    entries.sort(key=lambda entry: entry.at)
    if given.json:
        document = [asdict(entry) | {"at": entry.at.isoformat()} for entry in entries]
        print_document({"job_id": given.job, "history": document})
        return ExitCode.DONE
    for entry in entries:
        print(entry.line())
    return ExitCode.DONE


async def from_temporal(client: Client, job: str) -> list[Entry]:
    """All runs that Temporal still has: of every submit, and the ones that each went on in."""
    from client.history_events import RunHistory, running_attempts

    entries: list[Entry] = []
    async for execution in client.list_workflows(f"WorkflowId = '{job}'"):
        history = RunHistory(client.data_converter)
        handle = client.get_workflow_handle(job, run_id=execution.run_id)
        async for event in handle.fetch_history_events():
            entries += await history.read(await decoded(event, client.data_converter))
        raw = await decoded((await handle.describe()).raw_description, client.data_converter)
        entries += running_attempts(raw.pending_activities)
    return entries


def from_store(opened: Session, job: str, complete: bool) -> list[Entry]:
    """What the store has recorded. complete: Temporal has told of the attempts; else the manifest does."""
    entries = []
    stat = opened.store.stat(layout.job(job))
    if stat is not None:
        entries.append(Entry(stat.modified, "submitted for the first time (the job's record in the store)"))
    for letter in letters(opened.store):
        if letter.job_id == job:
            codes = ", ".join(f"{f.tile_id or 'whole frame'}: {f.code}" for f in letter.failures)
            entries.append(Entry(letter.created_at, f"dead-lettered: {codes}"))
    manifest = opened.manifest(job)
    if manifest is not None:
        entries += of_manifest(manifest, complete)
    return entries


def of_manifest(manifest: Manifest, complete: bool) -> list[Entry]:
    made = manifest.publication
    tiles = [
        Entry(
            made.created_at,
            "rendered (the manifest's record; Temporal has forgotten the attempts)",
            tile.tile_id,
            tile.attempts,
            tile.worker,
            samples=tile_area(tile.tile_id) * manifest.frame.request.samples_per_pixel,
        )
        for tile in made.tiles
    ]
    what = f"published by {made.worker} under fence {made.fence}: {manifest.frame.images[0].key}"
    return [*([] if complete else tiles), Entry(made.created_at, what)]


def past_entries(tile: str, past: list[dict[str, Any]] | tuple[dict[str, Any], ...]) -> list[Entry]:
    """Of attempts before the last one, by what each said in its last heartbeat."""
    return [past_entry(tile, said) for said in past if "since" in said]


def past_entry(tile: str, said: dict[str, Any], why: str | None = None) -> Entry:
    """why: where something knows better than the attempt itself how it ended."""
    since = datetime.fromisoformat(str(said["since"]))
    until = datetime.fromisoformat(str(said.get("at", said["since"])))
    current, samples = str(said.get("tile", "")), int(said.get("samples", 0))
    rendered = (samples - int(said.get("resumed", 0))) * tile_area(current)
    lost = (samples - int(said.get("stored", 0))) * tile_area(current)
    ended = why or str(said.get("failed", "worker_lost: no more heartbeats"))
    if lost > 0:
        ended += f"; {count(lost)} of the samples were not stored yet"
    return Entry(
        since,
        ended,
        tile,
        int(said.get("attempt", 1)),
        str(said.get("worker", "")),
        (until - since).total_seconds(),
        rendered,
    )
