"""`tessera list`: the frames that Temporal knows, newest first."""

from __future__ import annotations

import argparse
from typing import Any

from temporalio.client import Client

from client.commands import print_document
from client.errors import BadInput, ExitCode
from client.session import session
from contracts import FrameStatus
from settings import Settings
from workflows import attributes


async def list_jobs(given: argparse.Namespace, settings: Settings) -> ExitCode:
    query = listing_query(given.status, given.project)
    if given.limit < 1:
        raise BadInput("--limit: must be at least 1")
    async with session(settings) as opened:
        rows = []
        if not opened.is_new:
            rows = await opened.reach(lambda client: _rows(client, query, given.limit))
    if given.json:
        print_document({"frames": rows})
        return ExitCode.DONE
    for row in rows:
        percent, started = 100 * (row["progress"] or 0), row["started_at"][:19]
        print(f"{row['status']:16} {percent:3.0f} %  {started}  {row['job_id']}")
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


async def _rows(client: Client, query: str, limit: int) -> list[dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    async for execution in client.list_workflows(query):
        found = execution.typed_search_attributes
        row = {
            "job_id": execution.id,
            "status": found.get(attributes.STATUS),
            "project": found.get(attributes.PROJECT),
            "scene": found.get(attributes.SCENE),
            "frame": found.get(attributes.FRAME),
            "progress": found.get(attributes.PROGRESS),
            "started_at": execution.start_time.isoformat(),
        }
        rows.setdefault(execution.id, row)  # an older run of the same frame comes later
        if len(rows) >= limit:
            break
    return list(rows.values())
