"""Disturbs real farms, audits what is left, and prints a table for each. Exit code 1: a breach."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

from tests.chaos.audit import audit
from tests.chaos.reference import References
from tests.chaos.report import table
from tests.chaos.run import Evidence, Run
from tests.chaos.schedule import frames

SPARE_FRAMES = 6
"""More than are asked for, since faults that find nothing to hit are made up for."""


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--store", nargs="+", choices=("local", "s3"), default=["local", "s3"])
    parser.add_argument("--seed", nargs="+", type=int, default=[1])
    parser.add_argument("--faults", type=int, default=300)
    parser.add_argument("--frames", type=int, default=30)
    given = parser.parse_args()
    references = References()
    say("rendering the undisturbed frames")
    references.prepare(islice(frames(), given.frames + SPARE_FRAMES))
    breaches = 0
    for store in given.store:
        for seed in given.seed:
            say(f"store {store}, seed {seed}")
            breaches += run(store, seed, given.faults, given.frames, references)
    return 1 if breaches else 0


def run(store: str, seed: int, faults: int, frame_count: int, references: References) -> int:
    """Prints the run's table; how many breaches it has. The farm's folder stays where there are some."""
    folder = Path(tempfile.mkdtemp(prefix=f"tessera-chaos-{store}-{seed}-"))
    breaches = 0

    def judge(evidence: Evidence) -> None:
        nonlocal breaches
        rows = audit(evidence)
        print(table(evidence, rows), flush=True)
        breaches = sum(len(row.breaches) for row in rows)

    Run(store, seed, faults, frame_count, say).collect(folder, references, judge)
    say(f"{breaches} breaches; logs in {folder}")
    return breaches


if __name__ == "__main__":
    sys.exit(main())
