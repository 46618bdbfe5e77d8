"""The task queues: who takes what.

Queues of rendering carry the engine's fingerprint, so that a frame is rendered by one engine from first
to last, and a new version of the tracer drains beside an old one.
"""

CONTROL = "tessera-control"
"""Workflows."""
SERVICE = "tessera-service"
"""Steps that any engine can do: preparing a frame, records in the store."""


FIXED = {"control": CONTROL, "service": SERVICE}
"""By kind: what exists whatever the engine."""


def of_engine(engine: str) -> dict[str, str]:
    """By kind: the queues of one engine."""
    return {"tiles": tiles(engine), "isolated": isolated(engine), "finalize": finalize(engine)}


def tiles(engine: str) -> str:
    return f"tessera-tiles-{engine}"


def isolated(engine: str) -> str:
    """Tiles that may kill their process."""
    return f"tessera-isolated-{engine}"


def finalize(engine: str) -> str:
    return f"tessera-finalize-{engine}"
