"""What the Web UI shows as a frame's current details, in markdown."""

from __future__ import annotations

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from contracts import Failure, FrameStatus, JobStatus

NEXT_STEP = {
    FrameStatus.PAUSED: "Signal `resume` to go on.",
    FrameStatus.DEAD_LETTERED: "Mend the cause, then signal `retry` (with tile ids: only those); or cancel "
    "the frame. `tessera dead-letters show` says how to reproduce a tile.",
    FrameStatus.FAILED_TERMINAL: "Change the input and submit again; a retry cannot mend this.",
}


SHOWN_DEAD = 20


def describe(status: JobStatus, dead: tuple[Failure, ...]) -> str:
    """dead: the last failures of the tiles that are given up."""
    tiles, samples, attempts = status.tiles, status.samples, status.attempts
    lines = [
        f"**{status.status}** · {100 * status.progress:.0f} %",
        "",
        "| | |",
        "|---|---|",
        f"| tiles rendered | {tiles.rendered} of {tiles.total}, {tiles.dead} dead |",
        f"| samples rendered, resumed | {samples.rendered:,}, {samples.resumed:,} of {samples.target:,} |",
        f"| attempts, lost, yielded | {attempts.total}, {attempts.lost}, {attempts.yielded} |",
    ]
    if status.error is not None:
        lines += ["", f"Last failure: `{status.error.code}` {status.error.message}"]
    if dead:
        lines += ["", "| dead tile | attempts | last worker | why |", "|---|---|---|---|"]
        lines += [
            f"| {failure.tile_id} | {failure.attempt} | {failure.worker} | {failure.message} |"
            for failure in dead[:SHOWN_DEAD]
        ]
        lines += [f"and {len(dead) - SHOWN_DEAD} more"] * (len(dead) > SHOWN_DEAD)
    if status.result is not None:
        lines += ["", f"Published: `{status.result.image}`"]
    lines += ["", *(f"Warning: {warning}" for warning in status.warnings[:10])]
    if status.status in NEXT_STEP:
        lines += ["", NEXT_STEP[status.status]]
    return "\n".join(lines)
