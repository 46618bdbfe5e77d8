"""The table of a run, in Markdown."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tests.chaos.run import Evidence
from tests.chaos.schedule import Kind

if TYPE_CHECKING:
    from tests.chaos.audit import Row

MOST_SHOWN = 20
"""Breaches of one row; the first ones tell."""


def table(evidence: Evidence, rows: list[Row]) -> str:
    done = Counter(fault.kind for fault, _ in evidence.faults)
    missed = evidence.missed
    lines = [
        f"### Store {evidence.store_kind}, seed {evidence.seed}",
        "",
        f"{len(evidence.faults)} faults on {len(evidence.orders)} frames in {evidence.seconds:.0f} s.",
        *(f"Left out: {reason}." for reason in evidence.skipped),
        "",
        "| fault | done | not met |",
        "|---|---:|---:|",
        *(
            f"| {k.value} | {done[k]} | {missed.get(k.value, 0)} |"
            for k in Kind
            if done[k] or k.value in missed
        ),
        "",
        "| what must hold | | found |",
        "|---|---|---|",
    ]
    for row in rows:
        lines.append(f"| {row.claim} | {'**BREACH**' if row.breaches else 'yes'} | {row.figure} |")
    for row in rows:
        lines += [f"- BREACH: {breach}" for breach in row.breaches[:MOST_SHOWN]]
    return "\n".join([*lines, ""])
