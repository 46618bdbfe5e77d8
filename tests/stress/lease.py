"""Hands leases over among processes that are killed and stopped, and says whether the lease kept its promise.

    python -m tests.stress.lease --store local|s3 --handovers 2000 --seed 1

Prints a table; exit code 1 where there was a double holder, a fence twice, or a lease that nobody got for
longer than its ttl and a second by the store's clock.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

from store.local import OWN_FOLDER
from tests.stress.contender import PACES, Pace, contend
from tests.stress.processes import PATIENCE, end, fresh_store, go_on, pid_of, start, stop, table
from tests.stress.witness import Hearing, Wait, Witness

PROCESSES = 8
LEASES = {"local": 1, "s3": 4}
"""A holder that dies costs a ttl, which a second's grain makes long on S3: several at once save time."""
STUCK = 1.0
"""So many seconds after its ttl somebody else must have a lease."""
MOST_STOPPED = 3


class Crew:
    """The contenders, and the one who disturbs them by a seeded schedule."""

    def __init__(self, url: str, pace: Pace, leases: int, seed: int) -> None:
        self._url, self._pace = url, pace
        self._chance = random.Random(seed)
        self._keys = [f"leases/job-{number}.json" for number in range(leases)]
        self.witness = Witness()
        self._hearing = Hearing(self.witness)
        self._stopped: dict[int, tuple[float, float | None]] = {}
        """By place in the crew: when to let it go on, and since when it stands inside a local lock, if so."""
        self.kills = self.kills_of_holders = self.stops = self.stops_of_holders = 0
        self.locked: list[tuple[float, float]] = []
        """When a process stood inside a local lock: from, to."""
        self._crew = [self._new() for _ in range(PROCESSES)]

    def _new(self) -> BaseProcess:
        seed = self._chance.getrandbits(32)
        return start(contend, self._url, self._keys, self._pace, self._hearing.address, seed)

    def run(self, handovers: int, calm: int) -> None:
        """A kill or a stop after every 1 to 2 * calm hand-overs, until there were enough of them."""
        try:
            while self.witness.between_processes < handovers:
                self._wait_for(self.witness.handovers + self._chance.randint(1, 2 * calm))
                self._disturb()
        finally:
            for process in self._crew:
                end(process)
            self._hearing.close()

    def _wait_for(self, handovers: int) -> None:
        give_up = time.monotonic() + PATIENCE
        while self.witness.handovers < handovers:
            now = time.monotonic()
            assert now < give_up, f"nothing moves any more: {self.witness}"
            for place, (due, _) in list(self._stopped.items()):
                if now > due:
                    self._go_on(place)
            time.sleep(0.002)

    def _disturb(self) -> None:
        chance, pids = self._chance, [pid_of(process) for process in self._crew]
        place, action = chance.randrange(PROCESSES), chance.choice(["kill", "stop", "stop"])
        if chance.random() < 0.5:  # the holder of one of the leases, if it is there yet
            with self.witness.lock:
                holders = [r.pid for r in self.witness.resources.values() if r.held and r.pid in pids]
            place = pids.index(chance.choice(holders)) if holders else place
        if action == "kill":
            self._kill(place)
        elif place not in self._stopped and len(self._stopped) < MOST_STOPPED:
            # Short: a hiccup. Long: past the lease, so that another one takes it over.
            self._stop(place, self._pace.ttl * chance.choice([chance.uniform(0, 0.5), chance.uniform(1, 2)]))

    def _kill(self, place: int) -> None:
        self.kills += 1
        self.kills_of_holders += self._holds(place)
        end(self._crew[place])
        self._forget_stop(place)
        self._crew[place] = self._new()

    def _stop(self, place: int, seconds: float) -> None:
        if stop(self._crew[place]):
            now = time.monotonic()
            locked = holds_lock(pid_of(self._crew[place]), Path(self._url))
            self._stopped[place] = (now + seconds, now if locked else None)
            self.stops += 1
            self.stops_of_holders += self._holds(place)

    def _go_on(self, place: int) -> None:
        go_on(self._crew[place])
        self._forget_stop(place)

    def _forget_stop(self, place: int) -> None:
        _, locked = self._stopped.pop(place, (0.0, None))
        if locked is not None:
            self.locked.append((locked, time.monotonic()))

    def _holds(self, place: int) -> bool:
        pid = pid_of(self._crew[place])
        with self.witness.lock:
            return any(r.held and r.pid == pid for r in self.witness.resources.values())

    def stuck(self) -> list[Wait]:
        """Hand-overs that came too late, but for those that waited for a process stopped inside a lock."""
        limit = self._pace.ttl + STUCK
        return [
            wait
            for wait in self.witness.waits
            if wait.seconds > limit
            and not any(
                since < wait.ended and until > wait.ended - wait.seconds for since, until in self.locked
            )
        ]

    def wrong(self) -> list[str]:
        """What the lease must never do; empty if it did not."""
        unexpected = [what for what in self.witness.notes if what.startswith("unexpected")]
        stuck = [f"{wait} is longer than the ttl and {STUCK:g} s" for wait in self.stuck()]
        return self.witness.double_holders + self.witness.repeated_fences + stuck + unexpected


def holds_lock(pid: int, store: Path) -> bool:
    """Whether the process holds one of the local store's locks of keys."""
    inodes = {str(path.stat().st_ino) for path in (store / OWN_FOLDER / "locks").glob("*")}
    for line in Path("/proc/locks").read_text().splitlines():
        fields = line.split()
        if fields[1] == "FLOCK" and fields[4] == str(pid) and fields[5].rpartition(":")[2] in inodes:
            return True
    return False


def stress(kind: str, url: str, handovers: int, seed: int, calm: int = 4) -> tuple[Crew, str]:
    """The crew after its work, and the table."""
    pace, began = PACES[kind], time.monotonic()
    crew = Crew(url, pace, LEASES[kind], seed)
    crew.run(handovers, calm)
    seen = crew.witness
    expired = [wait.seconds for wait in seen.waits if not wait.after_release]
    released = [wait.seconds for wait in seen.waits if wait.after_release]
    rows = {
        "processes / leases / ttl": f"{PROCESSES} / {LEASES[kind]} / {pace.ttl:g} s",
        "hand-overs (between processes)": f"{seen.handovers} ({seen.between_processes})",
        "after a release / after the ttl": f"{len(released)} / {len(expired)}",
        "SIGKILLs (of holders)": f"{crew.kills} ({crew.kills_of_holders})",
        "SIGSTOPs (of holders)": f"{crew.stops} ({crew.stops_of_holders})",
        "stopped inside a local lock": len(crew.locked),
        **dict(sorted(seen.notes.items())),
        "counted by the witness": sum(r.count for r in seen.resources.values()),
        "stale acts refused by the witness": seen.late,
        "longest wait after a release, s": max(released, default=0.0),
        "longest wait after the ttl, s": max(expired, default=0.0),
        "stuck longer than ttl + 1 s": len(crew.stuck()),
        "double holders": len(seen.double_holders),
        "repeated fences": len(seen.repeated_fences),
        "seconds": time.monotonic() - began,
    }
    return crew, table(f"lease, {kind}, seed {seed}", rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--store", choices=sorted(PACES), default="local")
    parser.add_argument("--handovers", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with fresh_store(options.store) as url:
        crew, shown = stress(options.store, url, options.handovers, options.seed)
    print(shown)
    for line in crew.wrong():
        print(line)
    return 1 if crew.wrong() else 0


if __name__ == "__main__":
    sys.exit(main())
