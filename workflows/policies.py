"""Every timeout and retry policy of the system, each with its reason."""

from __future__ import annotations

from datetime import timedelta

from temporalio.common import Priority, RetryPolicy

from contracts import TERMINAL_CODES, FrameRequest, canonical_hash, slug

HEARTBEAT_TIMEOUT = timedelta(seconds=10)
"""How long a worker may be silent before it counts as lost. Heartbeats come from the render loop about
four times a second and are sent at most once a second, so ten missed ones are no accident; it is also
the longest that a killed worker delays its tiles."""

HEARTBEAT_THROTTLE = timedelta(seconds=1)
"""How often heartbeats are really sent. It bounds how late a cancel or a pause reaches a tile; the
default of up to a minute would make a pause useless."""

ATTEMPT_TIMEOUT = timedelta(days=1)
"""No attempt is ended for being slow: heartbeats come from progress, so a hung one is found by its
silence. This only keeps an attempt from living for ever."""

GRACEFUL_SHUTDOWN = timedelta(seconds=20)
"""What a leaving worker grants its activities to store what they have. They need one slice of work
and one write; loading a scene stops at its next step."""

STICKY_TIMEOUT = timedelta(seconds=2)
"""How long a workflow task waits for the process that has the workflow in its cache. The default of
ten seconds is how long a killed control worker would stall every frame it had."""

WINDOW = 32
"""Tiles scheduled at once: enough that a free slot never waits for the workflow on a farm of a dozen
slots. Far more would slow the server down (2,000 pending activities hang a workflow, and throughput on
SQLite is best at 16 to 32) and make a pause slow."""

SEQUENCE_WINDOW = 6
"""Frames of a sequence that run at once. While one is prepared and another finalized (a slot each, see
worker.py) the others keep the tile workers busy. More would finish no frame sooner: the first frames would
only share the farm with later ones, a cancel or a pause would have more to stop, and frames times WINDOW
has to stay far below the 2,000 pending activities that hang a farm with a few sequences."""

PUBLISHED_BATCH = 100
"""Frames whose manifests are looked for in one activity: a second or less on a store that is far away, so
that a cancel need not wait, and three events of history for a hundred frames."""

FAILURES_KEPT = 100
"""Frames of a sequence of which it is kept why they failed; of the others only that they did. It bounds what
a status is and what a run hands to the next one, which has to stay below 2 MB."""

DEAD_LIMIT = 100
"""So many dead tiles are no longer the tiles' fault: the frame parks at once instead of wearing out the
rest. It also bounds what a run hands to the next one, which has to stay below 2 MB."""

STORAGE_PAUSE = timedelta(seconds=30)
"""Between the rounds of a tile that the store fails. Such a tile is never isolated or given up: the
fault is not its own, and all others have it too."""

TERMINAL_TYPES = [*sorted(TERMINAL_CODES), "PayloadsTooLarge"]
"""Error types that no retry can mend. PayloadsTooLarge is the SDK's own, and retries unless named."""

TILE_RETRY = RetryPolicy(
    initial_interval=timedelta(seconds=0.5),
    backoff_coefficient=2.0,
    maximum_interval=timedelta(seconds=30),
    maximum_attempts=4,
    non_retryable_error_types=TERMINAL_TYPES,
)
"""One round of a tile. When it is used up, progress decides: a tile whose checkpoint moved on in the
round gets another one, a tile that stood still goes to the isolated queue."""

ISOLATED_RETRY = RetryPolicy(
    initial_interval=timedelta(seconds=1),
    backoff_coefficient=2.0,
    maximum_interval=timedelta(seconds=30),
    maximum_attempts=2,
    non_retryable_error_types=TERMINAL_TYPES,
)
"""The round in isolation. Two attempts, since one may be lost to the machine's own misfortune."""

STEP_RETRY = RetryPolicy(
    initial_interval=timedelta(seconds=1),
    backoff_coefficient=2.0,
    maximum_interval=timedelta(seconds=60),
    maximum_attempts=10,
    non_retryable_error_types=TERMINAL_TYPES,
)
"""Prepare, finalize and records in the store: about five minutes of an absent store before the frame
parks and asks for a person."""

JUDGE_RETRY = RetryPolicy(
    initial_interval=timedelta(seconds=1),
    backoff_coefficient=2.0,
    maximum_interval=timedelta(seconds=60),
    non_retryable_error_types=TERMINAL_TYPES,
)
"""Asking the store how far a tile is: without limit, because a tile must not be condemned for a store
that is away. It renders nothing, and a cancel ends it."""


def priority(request: FrameRequest) -> Priority:
    """Whose tile a free slot takes next.

    A frame's priority (0 to 100, higher first) is Temporal's key (1 to 5, lower first). Among tiles of one
    key projects share the farm by their weights, however many tiles each has waiting.
    """
    return Priority(
        priority_key=5 - min(request.priority // 20, 4),
        fairness_key=fairness_key(request.project_id),
        fairness_weight=request.weight,
    )


def fairness_key(project: str) -> str:
    """Readable in the Web UI, and no two projects' is the same: Temporal takes 64 bytes, a name may have
    more."""
    return f"{slug(project, 40)}-{canonical_hash(project)[:8]}"
