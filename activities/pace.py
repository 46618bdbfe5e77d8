"""How fast an attempt renders, for its heartbeats: from it the client tells the time that is left."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

MINUTE = 60.0


class Pace:
    """Samples a second of the last minute, of numbers that only grow."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, int]] = deque()
        """(time, samples)"""

    def at(self, samples: int) -> float:
        """The pace now that so many samples are done; 0 the first time."""
        now = self._clock()
        self._seen.append((now, samples))
        while now - self._seen[0][0] > MINUTE:
            self._seen.popleft()
        before, first = self._seen[0]
        return (samples - first) / (now - before) if now > before else 0.0
