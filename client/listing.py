"""`tessera list`: the frames that Temporal knows, newest first."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from typing import Any

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus

from client.commands import print_document
from client.errors import BadInput, ExitCode
from client.options import age as duration_of
from client.report import percent_of
from client.session import session
from client.status import CLOSED
from contracts import FrameStatus
from settings import Settings
from workflows import attributes
from workflows.launch import PICTURE_MEMO

PAGE = 1000
"""The most that Temporal gives in one answer."""
COLUMNS = ("STATUS", "PROGRESS", "FRAME", "SIZE", "SPP", "AGE", "SCENE", "JOB")


async def list_jobs(given: argparse.Namespace, settings: Settings) -> ExitCode:
    query = listing_query(given, datetime.now(UTC))
    if given.limit < 1:
        raise BadInput("--limit: must be at least 1")
    async with session(settings) as opened:
        rows = []
        if not opened.is_new:
            rows = await opened.reach(lambda client: _rows(client, query, given.limit))
        if not rows:
            such = " such" if " AND " in query else ""
            print(f"no{such} frames in {opened.place}", file=sys.stderr)
    if given.json:
        print_document({"frames": rows[: given.limit]})
    elif rows:
        print(table(rows[: given.limit], datetime.now(UTC)))
    if len(rows) > given.limit:
        print(f"only the newest {given.limit} are shown; --limit N shows more", file=sys.stderr)
    return ExitCode.DONE


def listing_query(given: argparse.Namespace, now: datetime) -> str:
    """Temporal's list filter. Raises BadInput for what is no status, no age, or cannot be searched for."""
    parts = ["WorkflowType = 'FrameWorkflow'"]
    if given.status is not None:
        if given.status not in set(FrameStatus):
            raise BadInput(f"--status: {given.status!r} is no status; one of {', '.join(FrameStatus)}")
        parts.append(f"RenderStatus = '{given.status}'")
    for option, attribute in (("project", "RenderProject"), ("scene", "RenderScene")):
        value = getattr(given, option)
        if value is not None:
            if set(value) & set("'\"\\"):
                raise BadInput(f"--{option}: quotes and backslashes cannot be searched for")
            parts.append(f"{attribute} = '{value}'")
    for option, sign in (("since", ">="), ("older_than", "<")):
        text = getattr(given, option)
        if text is not None:
            parts.append(f"StartTime {sign} '{(now - duration_of(text)).isoformat()}'")
    return " AND ".join(parts)


async def _rows(client: Client, query: str, limit: int) -> list[dict[str, Any]]:
    """One row more than asked for where there are more."""
    found: dict[str, WorkflowExecution] = {}
    async for execution in client.list_workflows(query, page_size=min(limit + 1, PAGE)):
        found.setdefault(execution.id, execution)  # an older run of the same frame comes later
        if len(found) > limit:
            break
    return [await _row(execution) for execution in found.values()]


async def _row(execution: WorkflowExecution) -> dict[str, Any]:
    """All of it is in the listing itself: with a request a row, a list of a busy farm would take seconds.
    So progress is what the workflow has announced, in steps of a tenth; `status` tells it by samples."""
    found = execution.typed_search_attributes
    picture = await execution.memo_value(PICTURE_MEMO, {})
    status = CLOSED.get(execution.status or WorkflowExecutionStatus.RUNNING, found.get(attributes.STATUS))
    return {
        "job_id": execution.id,
        "status": status,
        "project": found.get(attributes.PROJECT),
        "scene": found.get(attributes.SCENE),
        "frame": found.get(attributes.FRAME),
        "size": picture.get("size"),
        "samples_per_pixel": picture.get("spp"),
        "progress": found.get(attributes.PROGRESS),
        "error_code": found.get(attributes.ERROR_CODE),
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
