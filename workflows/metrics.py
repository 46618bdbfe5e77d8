"""Meters of what a workflow decides. A replay counts nothing again: workflow.metric_meter() sees to it."""

from __future__ import annotations

from temporalio import workflow


def frame_changed(before: str, after: str) -> None:
    meter = workflow.metric_meter()
    meter.create_counter("tessera_frame_transitions", "Changes of a frame's state").add(
        1, {"from": before, "to": after}
    )


def round_ended(result: str, alone: bool) -> None:
    """A round of a tile: rendered, yielded, stopped or failed; alone on the isolated queue or not."""
    meter = workflow.metric_meter()
    meter.create_counter("tessera_tile_rounds", "Rounds of tile attempts, by result").add(
        1, {"result": result, "alone": str(alone).lower()}
    )


def dead_lettered(code: str) -> None:
    meter = workflow.metric_meter()
    meter.create_counter("tessera_dead_letters", "Frames parked for an operator, by code").add(
        1, {"code": code}
    )
