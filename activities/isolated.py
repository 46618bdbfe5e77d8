"""render_tile in a process of its own: what kills it, kills nothing else, and is known for what it was.

For tiles that made no progress in a whole round. The activity starts activities/child.py, hands it the task,
and beats whenever the child says how far it is. A child that dies of a signal is renderer_crashed at once,
and one that falls silent is killed: the slot lives on.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from temporalio import activity

from activities.attempt import Stop, beat, past_attempts
from activities.errors import Refused, coded_errors
from activities.tiles import outcome_of
from contracts import ErrorCode, TileOutcome, TileResult, TileTask

CHILD = (sys.executable, "-m", "activities.child")
SILENCE_SECONDS = 30.0
"""A child that says nothing for so long hangs. Longer than the heartbeat timeout: Temporal has given the
attempt up by then."""
LEAVE_SECONDS = 10.0
"""What a child gets to store its film when it is told to stop."""
LOOK_SECONDS = 0.5


class IsolatedActivities:
    def __init__(
        self, store_url: str, checkpoint_seconds: float, worker: str, child: Sequence[str] = CHILD
    ) -> None:
        self._order = {"store": store_url, "checkpoint_seconds": checkpoint_seconds}
        self._worker = worker
        self._child = list(child)

    @activity.defn(name="render_tile", no_thread_cancel_exception=True)
    def render_tile(self, task: TileTask) -> TileResult:
        with coded_errors(self._worker):
            order = json.dumps(self._order | {"task": task.model_dump(mode="json")})
            with running(self._child, order) as child:
                outcome, answer = follow(child)
            return TileResult(
                outcome=outcome,
                finished=int(answer["finished"]),
                resumed=int(answer["resumed"]),
                rendered=int(answer.get("rendered", 0)),
                past=tuple(past_attempts()),
                attempt=activity.info().attempt,
                worker=self._worker,
            )


@contextmanager
def running(command: list[str], order: str) -> Iterator[subprocess.Popen[bytes]]:
    """The child, which is gone when the block ends, however it ends."""
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert child.stdin is not None
        with suppress(BrokenPipeError):  # it died already: its end says of what
            child.stdin.write(order.encode() + b"\n")
            child.stdin.flush()
        yield child
    finally:
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()


def follow(child: subprocess.Popen[bytes]) -> tuple[TileOutcome, dict[str, Any]]:
    """Beats with what the child says until it has ended well. Raises Refused for all other ends."""
    outcome, last_word = TileOutcome.RENDERED, time.monotonic()
    for line in lines(child):
        now = time.monotonic()
        if line is None:
            if now - last_word > (SILENCE_SECONDS if outcome is TileOutcome.RENDERED else LEAVE_SECONDS):
                raise Refused(ErrorCode.RENDERER_CRASHED, f"no progress for {now - last_word:.0f} s: killed")
            continue
        last_word, said = now, json.loads(line)
        if "result" in said:
            return outcome, said["result"]
        if "error" in said:
            raise Refused(ErrorCode(said["error"]["code"]), said["error"]["message"])
        if outcome is TileOutcome.RENDERED:
            try:
                beat(**said["beat"])
            except Stop as stop:
                outcome = outcome_of(stop)
                child.terminate()
    raise Refused(ErrorCode.RENDERER_CRASHED, f"the process that rendered {how_it_ended(child.wait())}")


def lines(child: subprocess.Popen[bytes]) -> Iterator[bytes | None]:
    """What the child writes, line by line until it closes its end; None when it has written nothing for a
    while."""
    assert child.stdout is not None
    waiting = selectors.DefaultSelector()
    waiting.register(child.stdout, selectors.EVENT_READ)
    buffer = b""
    while True:
        if not waiting.select(LOOK_SECONDS):
            yield None
            continue
        piece = os.read(child.stdout.fileno(), 1 << 16)
        if not piece:
            return
        *whole, buffer = (buffer + piece).split(b"\n")
        yield from whole


def how_it_ended(code: int) -> str:
    if code >= 0:
        return f"left with code {code}; see the worker's log"
    name = signal.Signals(-code).name
    hint = ", as the kernel does when memory runs out" if -code == signal.SIGKILL else ""
    return f"died of {name}{hint}"
