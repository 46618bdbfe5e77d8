"""Meters of what a workflow decides. A replay counts nothing again: workflow.metric_meter() sees to it."""

from __future__ import annotations

from temporalio import workflow

TRANSITIONS = "tessera_frame_transitions", "Changes of a frame's state"
ROUNDS = "tessera_tile_rounds", "Rounds of tile attempts: rendered, yielded, stopped, failed; alone or not"
DEAD_LETTERS = "tessera_dead_letters", "Frames parked for an operator, by the code of the last failure"


def frame_changed(before: str, after: str) -> None:
    _add(TRANSITIONS, {"from": before, "to": after})


def round_ended(result: str, alone: bool) -> None:
    _add(ROUNDS, {"result": result, "alone": str(alone).lower()})


def dead_lettered(code: str) -> None:
    _add(DEAD_LETTERS, {"code": code})


def _add(meter: tuple[str, str], labels: dict[str, str | int | float | bool]) -> None:
    workflow.metric_meter().create_counter(*meter).add(1, labels)
