"""The process that renders one task alone: the order on stdin, one JSON line an event on stdout.

Started by activities/isolated.py. Leaves, with its film stored, on SIGTERM and when its parent is gone.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from contextlib import suppress
from typing import Any

from activities.attempt import Cancelled, Stop
from activities.errors import code_of
from activities.scenes import SceneCache
from activities.tiles import TileAttempt
from contracts import TileTask
from store import open_store
from telemetry.logs import configure_logs


def main() -> int:
    parent, stopping = os.getppid(), threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stopping.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which stops this one
    configure_logs()
    order = json.loads(sys.stdin.readline())

    def beat(**details: Any) -> None:
        say(beat=details)
        if stopping.is_set() or os.getppid() != parent:
            raise Cancelled

    try:
        store = open_store(order["store"])
        task = TileTask.model_validate(order["task"])
        attempt = TileAttempt(store, SceneCache(store, 1), order["checkpoint_seconds"], task, beat)
        with suppress(Stop):  # what is rendered is stored, and the parent knows why it asked
            attempt.render()
        say(result={"finished": attempt.finished, "resumed": attempt.resumed, "rendered": attempt.rendered})
    except Exception as error:  # noqa: BLE001  the parent raises it again
        code, message = code_of(error), str(error) or type(error).__name__
        say(error={"code": code, "message": f"{type(error).__name__}: {message}"})
    return 0


def say(**event: Any) -> None:
    try:
        print(json.dumps(event), flush=True)
    except BrokenPipeError:
        os._exit(1)  # nobody listens any more


if __name__ == "__main__":
    sys.exit(main())
