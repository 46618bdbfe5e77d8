"""What is done to the farm and when: a seeded, endless schedule of faults, and the frames that it hits."""

from __future__ import annotations

import random
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

SCENES = Path(__file__).resolve().parents[2] / "scenes"
FRAME_TILE = 32


class Kind(StrEnum):
    """Every kind of fault, with its name in the table."""

    KILL = "SIGKILL of a worker"
    PAUSE = "SIGSTOP of a worker, SIGCONT within 4 s"
    FREEZE = "SIGSTOP of a worker past heartbeat timeout and lease"
    TERM = "SIGTERM of a worker"
    TEMPORAL = "SIGKILL of the Temporal server"
    CLIENT = "SIGKILL of a client that renders"
    POISON = "a tile that kills its process, until its frame is parked"
    CORRUPT = "a bit of a stored film flipped"
    DISK_FULL = "disk full"
    S3_KILL = "SIGKILL of the S3 server"
    S3_ERRORS = "S3 answers with errors"
    S3_STALL = "S3 does not answer"
    S3_CUT = "S3 cuts bodies"
    S3_LOST_REPLY = "S3 replies are lost"
    CHECKPOINTED = "after a checkpoint"
    WRITING_FILM = "in the middle of a film's write"
    UNREPORTED = "between a tile's last film and its completion"
    RENEWING = "while the lease is renewed"
    UNPUBLISHED = "between upload and manifest"
    PUBLISHED = "between manifest and completion"


LOCAL_ONLY = frozenset({Kind.DISK_FULL})
S3_ONLY = frozenset({Kind.S3_KILL, Kind.S3_ERRORS, Kind.S3_STALL, Kind.S3_CUT, Kind.S3_LOST_REPLY})

WEIGHTS = {
    Kind.KILL: 14,
    Kind.PAUSE: 8,
    Kind.FREEZE: 4,
    Kind.TERM: 10,
    Kind.TEMPORAL: 3,
    Kind.CLIENT: 6,
    Kind.POISON: 1,
    Kind.CORRUPT: 6,
    Kind.DISK_FULL: 4,
    Kind.S3_KILL: 3,
    Kind.S3_ERRORS: 6,
    Kind.S3_STALL: 2,
    Kind.S3_CUT: 4,
    Kind.S3_LOST_REPLY: 8,
    Kind.CHECKPOINTED: 5,
    Kind.WRITING_FILM: 5,
    Kind.UNREPORTED: 6,
    Kind.RENEWING: 3,
    Kind.UNPUBLISHED: 6,
    Kind.PUBLISHED: 6,
}
"""How often each kind comes. Those that cost the farm a long rest come seldom."""

ROLES = ("tiles", "tiles", "tiles", "control", "control", "isolated")
"""Whom a signal hits."""


class Fault(NamedTuple):
    kind: Kind
    role: str
    """Whose worker a signal hits."""
    seconds: float
    """How long what ends by itself lasts: a stop, a full disk, an absent server."""
    pick: float
    """In [0, 1): which of several candidates, known only when it is done."""
    freeze: bool
    """A named point: SIGSTOP past the heartbeat timeout there, instead of SIGKILL."""


def kinds_for(store: str, disk: bool) -> list[Kind]:
    """The kinds that can be done. store: local or s3; disk: whether a small disk can be mounted."""
    left_out = S3_ONLY if store == "local" else LOCAL_ONLY
    return [kind for kind in Kind if kind not in left_out and (disk or kind is not Kind.DISK_FULL)]


def schedule(seed: int, kinds: list[Kind]) -> Iterator[Fault]:
    """Every kind once in an order by the seed, then by weight for ever."""
    chance = random.Random(seed)
    once = chance.sample(kinds, len(kinds))
    while True:
        kind = once.pop() if once else chance.choices(kinds, [WEIGHTS[k] for k in kinds])[0]
        low, high = (12.0, 18.0) if kind is Kind.FREEZE else (0.5, 4.0)
        role, seconds = chance.choice(ROLES), chance.uniform(low, high)
        yield Fault(kind, role, seconds, chance.random(), chance.random() < 0.2)


class Frame(NamedTuple):
    """One of the frames that are rendered meanwhile: three to six tiles of one to three seconds each, so that
    there is something to lose."""

    scene: Path
    width: int
    height: int
    samples: int
    seed: int

    @property
    def arguments(self) -> tuple[str, ...]:
        """For the command line."""
        return (
            *(str(self.scene), "--size", f"{self.width}x{self.height}", "--tile", str(FRAME_TILE)),
            *("--spp", str(self.samples), "--seed", str(self.seed), "--max-depth", "6"),
        )

    @property
    def settings(self) -> dict[str, Any]:
        """The same for client.request.Options."""
        return {"width": self.width, "height": self.height, "seed": self.seed, "max_depth": 6}


def frames() -> Iterator[Frame]:
    """Endless, and the same whatever the schedule's seed: their undisturbed pictures are needed only once."""
    sizes = ((64, 64), (96, 32), (64, 40), (72, 56), (80, 32))
    scenes = (SCENES / "cornell.gltf", SCENES / "still_life.glb")
    number = 0
    while True:
        width, height = sizes[number % len(sizes)]
        yield Frame(scenes[number % len(scenes)], width, height, 480 + 70 * (number % 7), number)
        number += 1
