"""Gauges of the process and its machine: memory, and room on the disks that it writes to."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from telemetry.metrics import Metrics

PERIOD = 10.0


def places(store_url: str) -> dict[str, Path]:
    """Folders whose disk must not fill, by the label that they get. A store behind a URL of its own
    protocol is watched where it runs."""
    found = {"temporary": Path(tempfile.gettempdir())}
    if "://" not in store_url:
        found["store"] = Path(store_url).expanduser()
    return found


async def watch_process(metrics: Metrics, folders: Mapping[str, Path]) -> NoReturn:
    """Sets the gauges for ever."""
    while True:
        metrics.memory.set(resident_bytes())
        for place, folder in folders.items():
            if folder.is_dir():  # the store's folder comes with its first blob
                metrics.disk_free.set(shutil.disk_usage(folder).free, {"place": place})
        await asyncio.sleep(PERIOD)


def resident_bytes() -> int:
    """Resident memory of this process; the second number of statm counts pages."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
