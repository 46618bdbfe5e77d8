"""What the Web UI shows as a frame's current details, in markdown."""

from __future__ import annotations

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from contracts import Failure, FrameStatus, JobStatus

NEXT_STEP = {
    FrameStatus.QUEUED: "It waits for a worker that prepares it; `tessera status` says whether one is there.",
    FrameStatus.PAUSED: "Send the signal or update `resume` to go on.",
    FrameStatus.DEAD_LETTERED: "Mend the cause, then send `retry` (with tile ids: only those); or cancel the "
    "frame, after the signal `discard_on_cancel` without its films. `tessera dead-letters show` says how to "
    "reproduce a tile.",
    FrameStatus.FAILED_TERMINAL: "Change the input and submit again; a retry cannot mend this.",
    FrameStatus.CANCELLED: "Submit it again to go on from the films that are there.",
}


SHOWN_DEAD = 20
CELL = 300
"""Characters of a message in a table."""


def describe(status: JobStatus, dead: tuple[Failure, ...]) -> str:
    """dead: the last failures of the tiles that are given up."""
    lines = [f"**{status.status}** · {100 * status.progress:.0f} %", ""]
    if status.status in NEXT_STEP:
        lines += [f"*What to do:* {NEXT_STEP[status.status]}", ""]
    if status.error is not None and status.status is not FrameStatus.COMPLETED:
        error = status.error
        where = f", tile `{error.tile_id}`" if error.tile_id else ""
        by = f", on `{error.worker}`" if error.worker else ""
        lines += [
            f"*Last failure:* `{error.code}`{where}, attempt {error.attempt}{by}: {cell(error.message)}",
            "",
        ]
    lines += counts(status)
    if dead:
        lines += ["", "| dead tile | attempts | last worker | why |", "|---|---|---|---|"]
        lines += [
            f"| `{failure.tile_id}` | `{failure.attempt}` | `{failure.worker}` | {cell(failure.message)} |"
            for failure in dead[:SHOWN_DEAD]
        ]
        lines += [f"and {len(dead) - SHOWN_DEAD} more"] * (len(dead) > SHOWN_DEAD)
    lines += ["", *(f"Warning: {warning}" for warning in status.warnings[:10]), ""]
    return "\n".join([*lines, *ids(status)])


def counts(status: JobStatus) -> list[str]:
    """The table of states and attempts. Upright, with values as code: the Web UI puts no space between the
    columns of a table."""
    tiles, samples, attempts = status.tiles, status.samples, status.attempts
    waiting = tiles.total - tiles.rendered - tiles.dead - tiles.running
    rows = {
        "tiles rendered": f"{tiles.rendered} of {tiles.total}",
        "tiles in flight, waiting, dead": f"{tiles.running}, {waiting}, {tiles.dead}",
        "attempts, lost, yielded": f"{attempts.total}, {attempts.lost}, {attempts.yielded}",
        "samples rendered, resumed": f"{samples.rendered:,} + {samples.resumed:,} of {samples.target:,}",
    }
    return ["| | |", "|---|---|", *(f"| {name} | `{value}` |" for name, value in rows.items())]


def ids(status: JobStatus) -> list[str]:
    """What to look for in the store, in logs and in other frames' lists."""
    rows = {
        "job id": status.job_id,
        "idempotency key": status.idempotency_key,
        "engine": status.engine,
        "films": status.progress_pointer,
        "picture": status.result.image if status.result is not None else None,
    }
    return ["| | |", "|---|---|", *(f"| {name} | `{value}` |" for name, value in rows.items() if value)]


def cell(text: str) -> str:
    """One line that no character of it can break out of its table."""
    return " ".join(text.replace("|", "¦").split())[:CELL]
