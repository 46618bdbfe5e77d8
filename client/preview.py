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
    from client.picture import Picture, Pixels

LOOK_SECONDS = 1.0
LOOK_SHARE = 4
"""The store is looked at at most once in LOOK_SECONDS, or LOOK_SHARE times as long as the look took: a
preview of a large frame must not become the store's main work."""


async def preview_job(given: argparse.Namespace, settings: Settings) -> ExitCode:
    output = Path(given.output)
    check_outputs([output])
    if output.suffix.lower() != ".png":
        raise BadInput(
            f"{output}: a preview is a .png; `tessera fetch` writes other formats of a whole picture"
        )
    async with session(settings) as opened:
        file = PreviewFile(opened, given.job, output)
        if file.write_published():
            return _told(given, 1.0, FrameStatus.COMPLETED)
        if not given.follow:
            file.write(None)
            return _told(given, file.share, None)
        status = await opened.wait(given.job, file.follow)
        if status.status is FrameStatus.COMPLETED and file.write_published():
            return _told(given, 1.0, status.status)
        file.write(status)
    _told(given, file.share, status.status)
    return exit_code(status.status)


class Preview:
    """The pixels of one job, looked up in the store when they are asked for, and not too often."""

    def __init__(self, opened: Session, job: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._opened = opened
        self._job = job
        self._clock = clock
        self._request = opened.request(job)
        self._picture: Picture | None = None
        self._next = 0.0

    @property
    def share(self) -> float:
        """Of the frame's samples, how many are in the picture."""
        return self._picture.share if self._picture is not None else 0.0

    def pixels(self, status: JobStatus) -> Pixels | None:
        """As they were at the last look; None for a frame that is not prepared."""
        began = self._clock()
        if began >= self._next:
            self.look(status)
            ended = self._clock()
            self._next = ended + max(LOOK_SECONDS, LOOK_SHARE * (ended - began))
        return self.shown

    @property
    def shown(self) -> Pixels | None:
        return self._picture.pixels if self._picture is not None else None

    def look(self, status: JobStatus | None) -> bool:
        """Takes up what is new in the store. Says whether anything was. status: None where only the store is
        asked; then the plan is that of this program's engine, or else any."""
        if self._picture is None:
            from client.picture import Picture

            store = self._opened.store
            progress = self._opened.progress(self._job)
            plan = find_plan(store, self._request) if status is None else progress.plan(status)
            if plan is None:
                return False
            self._picture = Picture(store, plan, self._request)
            self._picture.refresh()
            return True
        return self._picture.refresh()


class PreviewFile:
    """One file that shows one job. It is replaced as a whole: who opens it sees one picture or the next."""

    def __init__(self, opened: Session, job: str, output: Path) -> None:
        self._opened = opened
        self._job = job
        self._output = output
        self._preview = Preview(opened, job)
        self._shown = -1.0

    @property
    def share(self) -> float:
        return self._preview.share

    def write_published(self) -> bool:
        """Writes the published preview, if there is one."""
        manifest = self._opened.manifest(self._job)
        if manifest is None:
            return False
        fetch_preview(self._opened.store, manifest, self._output)
        return True

    def follow(self, status: JobStatus) -> None:
        """Called with every new status: writes the picture when there is news."""
        pixels = self._preview.pixels(status)
        if pixels is not None and self.share != self._shown:
            self._put(pixels)

    def write(self, status: JobStatus | None) -> None:
        """Raises BadInput for a frame that was never prepared: nobody knows how large it is."""
        self._preview.look(status)
        pixels = self._preview.shown
        if pixels is None:
            raise BadInput(f"{self._job}: not prepared yet, so there is nothing to show")
        self._put(pixels)

    def _put(self, pixels: Pixels) -> None:
        from tracer.images import write_png

        try:
            write_png(self._output, pixels)
        except OSError as error:
            raise BadInput(f"{self._output}: {error.strerror or error}") from error
        self._shown = self.share


def _told(given: argparse.Namespace, share: float, status: FrameStatus | None) -> ExitCode:
    if given.json:
        print_document({"job_id": given.job, "output": given.output, "progress": share, "status": status})
    else:
        print(f"wrote {given.output}, {100 * share:.1f} % of the samples are in it", file=sys.stderr)
    return ExitCode.DONE
