"""`tessera list`: the frames that Temporal knows, newest first."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from typing import Any

from temporalio.client import Client, WorkflowExecution

from client.commands import print_document
from client.errors import BadInput, ExitCode
from client.report import percent_of
from client.session import session
from client.status import job_status
from contracts import FrameStatus
from settings import Settings
from store import Store
from workflows import attributes
from workflows.launch import PICTURE_MEMO

COLUMNS = ("STATUS", "PROGRESS", "FRAME", "SIZE", "SPP", "AGE", "SCENE", "JOB")


async def list_jobs(given: argparse.Namespace, settings: Settings) -> ExitCode:
    query = listing_query(given.status, given.project)
    if given.limit < 1:
        raise BadInput("--limit: must be at least 1")
    async with session(settings) as opened:
        rows = []
        if not opened.is_new:
            rows = await opened.reach(lambda client: _rows(client, opened.store, query, given.limit))
        if not rows:
            such = " such" if given.status or given.project else ""
            print(f"no{such} frames in {opened.place}", file=sys.stderr)
    if given.json:
        print_document({"frames": rows})
    elif rows:
        print(table(rows, datetime.now(UTC)))
    return ExitCode.DONE


def listing_query(status: str | None, project: str | None) -> str:
    """Temporal's list filter. Raises BadInput for what is no status."""
    parts = ["WorkflowType = 'FrameWorkflow'"]
    if status is not None:
        if status not in set(FrameStatus):
            raise BadInput(f"--status: {status!r} is no status; one of {', '.join(FrameStatus)}")
        parts.append(f"RenderStatus = '{status}'")
    if project is not None:
        if set(project) & set("'\"\\"):
            raise BadInput("--project: quotes and backslashes cannot be searched for")
        parts.append(f"RenderProject = '{project}'")
    return " AND ".join(parts)


async def _rows(client: Client, store: Store, query: str, limit: int) -> list[dict[str, Any]]:
    found: dict[str, WorkflowExecution] = {}
    async for execution in client.list_workflows(query):
        found.setdefault(execution.id, execution)  # an older run of the same frame comes later
        if len(found) >= limit:
            break
    return [await _row(client, store, execution) for execution in found.values()]


async def _row(client: Client, store: Store, execution: WorkflowExecution) -> dict[str, Any]:
    """What `status` says of the job, without asking its workflow: Temporal's index follows with a delay, and
    knows progress only in steps of a tenth."""
    found = execution.typed_search_attributes
    status, progress = found.get(attributes.STATUS), found.get(attributes.PROGRESS)
    if status != FrameStatus.COMPLETED:
        now = await job_status(client, store, execution.id, patience=None)
        if now is not None:
            status, progress = now.status, now.progress
    picture = await execution.memo_value(PICTURE_MEMO, {})
    return {
        "job_id": execution.id,
        "status": status,
        "project": found.get(attributes.PROJECT),
        "scene": found.get(attributes.SCENE),
        "frame": found.get(attributes.FRAME),
        "size": picture.get("size"),
        "samples_per_pixel": picture.get("spp"),
        "progress": progress,
        "started_at": execution.start_time.isoformat(),
    }


def table(rows: list[dict[str, Any]], now: datetime) -> str:
    """The job's id comes last: it is long, and is taken whole with a double click."""
    lines = [COLUMNS, *(_cells(row, now) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _cells(row: dict[str, Any], now: datetime) -> tuple[str, ...]:
    started = datetime.fromisoformat(row["started_at"])
    return (
        str(row["status"] or "unknown"),
        percent_of(row["progress"] or 0.0).rjust(len("PROGRESS")),
        str(row["frame"] if row["frame"] is not None else ""),
        row["size"] or "auto",
        str(row["samples_per_pixel"] or ""),
        age((now - started).total_seconds()),
        str(row["scene"] or ""),
        row["job_id"],
    )


def age(seconds: float) -> str:
    """200000 -> 2 d; by the largest whole unit, as a person says it."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds / size)} {unit}"
    return f"{max(0, int(seconds))} s"
