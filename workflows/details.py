"""What the Web UI shows as a frame's current details, in markdown."""

from __future__ import annotations

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from contracts import FrameStatus, JobStatus

NEXT_STEP = {
    FrameStatus.PAUSED: "Signal `resume` to go on.",
    FrameStatus.DEAD_LETTERED: "Mend the cause, then signal `retry`; or cancel the frame.",
    FrameStatus.FAILED_TERMINAL: "Change the input and submit again; a retry cannot mend this.",
}


def describe(status: JobStatus) -> str:
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
    if status.result is not None:
        lines += ["", f"Published: `{status.result.image}`"]
    lines += ["", *(f"Warning: {warning}" for warning in status.warnings[:10])]
    if status.status in NEXT_STEP:
        lines += ["", NEXT_STEP[status.status]]
    return "\n".join(lines)
