"""Lets many processes finalize one frame while they are killed and stopped: one manifest must come of it.

    python -m tests.stress.finalize --store local|s3 --finalizers 200 --seed 1

The first half is killed, of the rest a third is killed and a third stopped past the lease and goes on
later, each at a random moment of its work. The lease is made too short to keep them apart: what is
published must not rest on it.
Prints a table; exit code 1 where there was not exactly one manifest that verifies, or a reader saw less.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from client.verify import Verification
from contracts import FinalizeTask, FrameResult
from store import LocalStore, Store, layout, open_store
from store.base import silent
from tests.stress.finalizer import (
    LEASE_SECONDS,
    Done,
    Fate,
    Read,
    finalize_until_done,
    prepare,
    read_until_told,
    run_attempt,
)
from tests.stress.processes import FORKED, PATIENCE, end, fresh_store, go_on, is_stopped, pid_of, start, table

AT_ONCE = 8
READERS = 2
MOST_DELAY = 0.02
"""Seconds after a heartbeat within which a signal comes: more than a step takes."""


@dataclass
class Finalizer:
    process: BaseProcess
    pipe: Connection
    fate: Fate
    stopped_since: float | None = None


@dataclass
class Outcome:
    results: list[FrameResult] = field(default_factory=list)
    codes: Counter[str] = field(default_factory=Counter)
    killed: int = 0
    stopped: int = 0
    unpublished: int = 0
    """Finalizers that were started before the manifest was there."""
    reads: list[Read] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """What must never be; empty if nothing was."""


class Race:
    """Keeps AT_ONCE finalizers of one frame at work until all have been."""

    def __init__(self, url: str, task: FinalizeTask, beats: int, seed: int) -> None:
        self._url, self._task, self._beats = url, task, beats
        self._store = open_store(url)
        self._chance = random.Random(seed)
        self._running: list[Finalizer] = []
        self.outcome = Outcome()

    def run(self, finalizers: int) -> Outcome:
        readers = [self._spawn(read_until_told, self._url, self._task.job_id) for _ in range(READERS)]
        try:
            self._run_all(finalizers)
            for _, pipe in readers:
                pipe.send("enough")
                self.outcome.reads.append(pipe.recv())
        finally:
            for process in [*(f.process for f in self._running), *(process for process, _ in readers)]:
                end(process)
        for read in self.outcome.reads:
            self.outcome.wrong += read.wrong
        return self.outcome

    def _spawn(self, *arguments: object) -> tuple[BaseProcess, Connection]:
        ours, theirs = FORKED.Pipe()
        process = start(*arguments, theirs)  # type: ignore[arg-type]
        theirs.close()
        return process, ours

    def _run_all(self, finalizers: int) -> None:
        started, give_up = 0, time.monotonic() + PATIENCE
        while started < finalizers or self._running:
            while started < finalizers and len(self._running) < AT_ONCE:
                self._start(started, finalizers)
                started += 1
            before = len(self._running)
            self._running = [finalizer for finalizer in self._running if not self._is_over(finalizer)]
            if len(self._running) < before:
                give_up = time.monotonic() + PATIENCE
            assert time.monotonic() < give_up, f"nothing moves any more: {self.outcome}"
            time.sleep(0.005)

    def _start(self, number: int, finalizers: int) -> None:
        published = self._store.stat(layout.manifest(self._task.job_id)) is not None
        self.outcome.unpublished += not published
        fate = self._fate(number < finalizers // 2)
        arguments = (self._url, self._task, number, fate)
        process, pipe = self._spawn(finalize_until_done, *arguments)
        self._running.append(Finalizer(process, pipe, fate))

    def _fate(self, early: bool) -> Fate:
        """The first half dies before it can publish; of the rest many are hit close to the commit."""
        chance, commit = self._chance, self._beats - 1
        delay = chance.uniform(0, MOST_DELAY)
        if early:
            return Fate(signal.SIGKILL, chance.randrange(commit), delay)
        first = max(0, commit - 2) if chance.random() < 0.5 else 0
        return Fate(
            chance.choice([signal.SIGKILL, signal.SIGSTOP, None]), chance.randint(first, commit), delay
        )

    def _is_over(self, finalizer: Finalizer) -> bool:
        process, outcome = finalizer.process, self.outcome
        if finalizer.pipe.poll():
            try:
                said = finalizer.pipe.recv()
            except EOFError:  # killed
                process.join()
                outcome.killed += 1
                if process.exitcode != -signal.SIGKILL:
                    outcome.wrong.append(f"a finalizer ended with exit code {process.exitcode}")
                return True
            if isinstance(said, Done):
                outcome.results.append(said.result)
                outcome.codes += said.codes
            else:
                outcome.wrong.append(said)
            end(process)
            return True
        if finalizer.fate.signal == signal.SIGSTOP:
            self._wake_in_time(finalizer)
        return False

    def _wake_in_time(self, finalizer: Finalizer) -> None:
        now = time.monotonic()
        if finalizer.stopped_since is None:
            if is_stopped(pid_of(finalizer.process)):
                finalizer.stopped_since = now
                self.outcome.stopped += 1
        elif now > finalizer.stopped_since + 3 * LEASE_SECONDS:
            go_on(finalizer.process)


def undisturbed(task_seed: int) -> tuple[FrameResult, int]:
    """What one finalizer makes of the same frame alone in a store of its own, and how often it beats."""
    with tempfile.TemporaryDirectory(prefix="tessera-stress-") as folder:
        store, beats = LocalStore(Path(folder)), [0]

        def beat() -> None:
            beats[0] += 1

        outcome = run_attempt(store, prepare(store, task_seed), 0, 1, beat)
        return outcome.result, beats[0]


def judge(store: Store, task: FinalizeTask, expected: FrameResult, outcome: Outcome) -> None:
    """Adds what is wrong with the store after all are done."""
    manifests = [blob.key for blob in store.list(layout.manifests())]
    if manifests != [layout.manifest(task.job_id)]:
        outcome.wrong.append(f"not one manifest: {manifests}")
        return
    data, _ = store.get(manifests[0])
    outcome.wrong += Verification(store, task.job_id, data, silent).faults
    if len(set(outcome.results)) != 1:
        outcome.wrong.append(f"finalizers were told of different frames: {set(outcome.results)}")
    if any((r.sha256, r.film_sha256) != (expected.sha256, expected.film_sha256) for r in outcome.results):
        outcome.wrong.append("the picture is not the undisturbed one")


def stress(kind: str, url: str, finalizers: int, seed: int) -> tuple[Outcome, str]:
    """What came of it, and the table."""
    began, store = time.monotonic(), open_store(url)
    expected, beats = undisturbed(seed)
    task = prepare(store, seed)
    outcome = Race(url, task, beats, seed).run(finalizers)
    judge(store, task, expected, outcome)
    rows = {
        "finalizers (at once)": f"{finalizers} ({AT_ONCE})",
        "SIGKILLed / stopped past the lease": f"{outcome.killed} / {outcome.stopped}",
        "started before it was published": outcome.unpublished,
        "told the published frame": len(outcome.results),
        **{f"attempts ended by {code}": count for code, count in sorted(outcome.codes.items())},
        "attempts that stored pictures": len(list(store.list("images/"))),
        "manifests": len(list(store.list(layout.manifests()))),
        "looks before / after publishing": f"{sum(r.before for r in outcome.reads)} / "
        f"{sum(r.whole for r in outcome.reads)}",
        "wrong": len(outcome.wrong),
        "seconds": time.monotonic() - began,
    }
    return outcome, table(f"finalize, {kind}, seed {seed}", rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--store", choices=["local", "s3"], default="local")
    parser.add_argument("--finalizers", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with fresh_store(options.store) as url:
        outcome, shown = stress(options.store, url, options.finalizers, options.seed)
    print(shown)
    for line in outcome.wrong:
        print(line)
    return 1 if outcome.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
