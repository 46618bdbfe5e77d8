"""`tessera preview`: the picture as far as it is, at any moment; with --follow again and again."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from client.commands import print_document
from client.desk import find_plan
from client.errors import BadInput, ExitCode, exit_code
from client.fetch import check_outputs, fetch_preview
from client.session import Session, session
from contracts import FrameStatus, JobStatus
from settings import Settings

if TYPE_CHECKING:
    from client.picture import Picture

LOOK_SECONDS = 1.0
LOOK_SHARE = 4
"""The store is looked at at most once in LOOK_SECONDS, or LOOK_SHARE times as long as the look took: a
preview of a large frame must not become the store's main work."""


async def preview_job(given: argparse.Namespace, settings: Settings) -> ExitCode:
    output = Path(given.output)
    check_outputs([output])
    if output.suffix.lower() != ".png":
        raise BadInput(
            f"{output}: a preview is a .png; `tessera fetch` writes the other formats once it is done"
        )
    async with session(settings) as opened:
        preview = Preview(opened, given.job, output)
        if preview.published():
            return _told(given, 1.0, FrameStatus.COMPLETED)
        if not given.follow:
            preview.write()
            return _told(given, preview.share, None)
        status = await opened.wait(given.job, preview.follow)
        if status.status is not FrameStatus.COMPLETED or not preview.published():
            preview.write()
    _told(given, preview.share, status.status)
    return exit_code(status.status)


class Preview:
    """One file that shows one job."""

    def __init__(
        self, opened: Session, job: str, output: Path, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._opened = opened
        self._job = job
        self._output = output
        self._clock = clock
        self._request = opened.request(job)
        self._picture: Picture | None = None
        self._next = 0.0
        self._written = False

    @property
    def share(self) -> float:
        return self._picture.share if self._picture is not None else 0.0

    def published(self) -> bool:
        """Writes the published preview, if there is one."""
        manifest = self._opened.manifest(self._job)
        if manifest is None:
            return False
        fetch_preview(self._opened.store, manifest, self._output)
        return True

    def follow(self, status: JobStatus) -> None:
        """Called with every new status: writes the picture when there is news, and not too often."""
        began = self._clock()
        if began < self._next:
            return
        if self._find_picture() is not None:
            self.write()
        ended = self._clock()
        self._next = ended + max(LOOK_SECONDS, LOOK_SHARE * (ended - began))

    def write(self) -> None:
        """Raises BadInput for a frame that was never prepared: nobody knows how large it is."""
        from tracer.images import write_png

        picture = self._find_picture()
        if picture is None:
            raise BadInput(f"{self._job}: not prepared yet, so there is nothing to show")
        if picture.refresh() or not self._written:
            try:
                write_png(self._output, picture.pixels)
                self._written = True
            except OSError as error:
                raise BadInput(f"{self._output}: {error.strerror or error}") from error

    def _find_picture(self) -> Picture | None:
        if self._picture is None:
            from client.picture import Picture

            plan = find_plan(self._opened.store, self._request)
            self._picture = None if plan is None else Picture(self._opened.store, plan, self._request)
        return self._picture


def _told(given: argparse.Namespace, share: float, status: FrameStatus | None) -> ExitCode:
    if given.json:
        print_document({"job_id": given.job, "output": given.output, "progress": share, "status": status})
    else:
        print(f"wrote {given.output}, {100 * share:.1f} % of the samples are in it", file=sys.stderr)
    return ExitCode.DONE
