"""A frame's tiles as a small map by state: for `watch` and `status --tiles`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from client.pending import PendingTile
from contracts import FramePlan, TileStatus
from workflows.tiling import tile_at, tile_count

SIGNS = {
    TileStatus.DEAD_LETTERED: "X",
    TileStatus.FAILED_RETRYABLE: "!",
    TileStatus.PROGRESSING: "▓",
    TileStatus.LEASED: "▒",
    TileStatus.QUEUED: "·",
    TileStatus.RENDERED: "█",
}
"""In the order in which they matter: a sign that stands for several tiles shows the first of their states."""
COLOURS = {
    TileStatus.DEAD_LETTERED: "bold red",
    TileStatus.FAILED_RETRYABLE: "yellow",
    TileStatus.PROGRESSING: "cyan",
    TileStatus.LEASED: "blue",
    TileStatus.QUEUED: "bright_black",
    TileStatus.RENDERED: "green",
}
_URGENCY = {status: place for place, status in enumerate(SIGNS)}
MAX_COLUMNS, MAX_ROWS = 64, 16


class TileMap:
    """The state of every tile, in rows from the top left corner."""

    def __init__(
        self,
        plan: FramePlan,
        samples: int,
        stored: Mapping[str, int],
        in_flight: Iterable[PendingTile],
        dead: Iterable[str],
    ) -> None:
        """samples: those of a rendered tile. stored: what the store has of each tile, by tile_id."""
        known = {tile.tile_id: tile.status for tile in in_flight}
        known |= dict.fromkeys(dead, TileStatus.DEAD_LETTERED)
        self.states: dict[str, TileStatus] = {}
        """By tile_id, in the order of their numbers."""
        for tile_id in (tile_at(plan, number).tile_id for number in range(tile_count(plan))):
            rendered = stored.get(tile_id, 0) == samples
            state = TileStatus.RENDERED if rendered else known.get(tile_id, TileStatus.QUEUED)
            self.states[tile_id] = state
        self._columns = -(-plan.width // plan.tile_size)

    def rows(self) -> list[list[TileStatus]]:
        """At most MAX_COLUMNS by MAX_ROWS signs."""
        columns, states = self._columns, list(self.states.values())
        rows = len(states) // columns
        step = max(-(-columns // MAX_COLUMNS), -(-rows // MAX_ROWS))
        return [
            [
                min(
                    (
                        states[row * columns + column]
                        for row in range(top, min(top + step, rows))
                        for column in range(left, min(left + step, columns))
                    ),
                    key=_URGENCY.__getitem__,
                )
                for left in range(0, columns, step)
            ]
            for top in range(0, rows, step)
        ]

    def counts(self) -> dict[TileStatus, int]:
        """How many tiles are in each state that any is in."""
        found = Counter(self.states.values())
        return {status: found[status] for status in SIGNS if found[status]}

    def text(self) -> str:
        """The map and its legend, without colours."""
        lines = ["".join(SIGNS[status] for status in row) for row in self.rows()]
        legend = "  ".join(f"{SIGNS[status]} {status} {count}" for status, count in self.counts().items())
        return "\n".join([*lines, legend])
