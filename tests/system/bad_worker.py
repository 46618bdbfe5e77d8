"""Workers that a tile kills or hangs.

python -m tests.system.bad_worker segfault|hang tiles|isolated|child [TILE]

A real worker but for one thing: rendering TILE ends in a segmentation fault, or never.
"""

from __future__ import annotations

import ctypes
import sys
import time
from typing import Any

import activities.child
import activities.isolated
import activities.tiles
import worker

POISON = "x0032y0032w0032h0032"
"""What TILE is unless said: the one in the middle of the frame of tests/system/conftest.py."""


def main(how: str, role: str, poison: str = POISON) -> None:
    real = activities.tiles.render_to

    def render_to(stored: activities.tiles.StoredFilm, *rest: Any) -> None:
        if stored.tile.tile_id == poison:
            print("POISON", flush=True, file=sys.stderr)
            if how == "segfault":
                ctypes.string_at(0)
            time.sleep(1e6)
        real(stored, *rest)

    setattr(activities.tiles, "render_to", render_to)  # noqa: B010  mypy refuses the assignment
    if role == "child":
        sys.exit(activities.child.main())
    child = (sys.executable, "-m", "tests.system.bad_worker", how, "child", poison)
    activities.isolated.IsolatedActivities.__init__.__defaults__ = (child,)
    if how == "hang":
        worker.HUNG_SECONDS, worker.DRAIN_SECONDS = 1.0, 2.0
    sys.argv[1:] = ["--role", role, "--slots", "2"]
    worker.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
