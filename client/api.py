"""The Python functions: submit a frame, or submit it and await its picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

from client.fetch import check_outputs
from client.request import Options, make_requests
from client.session import session
from contracts import FrameStatus, JobStatus
from settings import Settings


async def submit_frame(scene: str | Path, *, frame: int = 1, **options: Any) -> JobStatus:
    """Submits one frame and returns its status at once; what is published already is completed.

    options: samples_per_pixel, camera, project, priority, tile_size and root, and the fields of
    contracts.RenderSettings, for example width, height, max_depth, seed. An embedded farm stops when
    this returns, and the frame waits: use render_frame, or run `tessera dev`.

    Raises client.errors.BadInput for what makes no sense, Unreachable where the farm or store is away.
    """
    settings = Settings()
    requests, local = make_requests(scene, [frame], _options(options, settings))
    async with session(settings) as opened:
        return (await opened.submit(requests, local))[0].status


async def render_frame(
    scene: str | Path,
    *,
    output: str | Path | None = None,
    frame: int = 1,
    on_status: Callable[[JobStatus], None] | None = None,
    **options: Any,
) -> JobStatus:
    """Renders one frame: submits it, waits for its end, and writes the picture to `output`.

    output ends in .exr, .png or .npy. on_status is called with every new status. options and errors: see
    submit_frame. The returned status says how it ended: completed, failed_terminal, dead_lettered or
    cancelled; only a completed frame has a picture.
    """
    outputs = [] if output is None else [Path(output)]
    check_outputs(outputs)
    settings = Settings()
    requests, local = make_requests(scene, [frame], _options(options, settings))
    async with session(settings) as opened:
        status = (await opened.submit(requests, local))[0].status
        if status.result is None:
            status = await opened.wait(status.job_id, on_status or (lambda _: None))
        if status.status is FrameStatus.COMPLETED and outputs:
            opened.fetch(status.job_id, outputs)
        return status


def _options(given: dict[str, Any], settings: Settings) -> Options:
    """What Options knows by name goes there; the rest goes to RenderSettings, which refuses what it does
    not know."""
    names = {field.name for field in fields(Options)} - {"settings"}
    own = {"project": settings.project} | {name: given[name] for name in names & given.keys()}
    return Options(**own, settings={name: given[name] for name in given.keys() - names})
