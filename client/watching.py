"""`tessera watch`: follows a job until it ends; on a terminal with all that is known of it, live."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from client.commands import print_statuses
from client.errors import BadInput, ExitCode, exit_code
from client.report import PlainReport, Report, Told
from client.session import Session, session
from settings import Settings


async def watch_job(given: argparse.Namespace, settings: Settings) -> ExitCode:
    if given.picture and not sys.stderr.isatty():
        raise BadInput(
            "--picture draws on a terminal, and stderr is none: `tessera preview --follow` writes a file"
        )
    async with session(settings) as opened:
        with _reporting(opened, given) as report:
            status = await opened.wait(given.job, report)
    print_statuses(given, [status])
    return exit_code(status.status)


@contextmanager
def _reporting(opened: Session, given: argparse.Namespace) -> Iterator[Report]:
    if not sys.stderr.isatty():
        yield PlainReport(Told())
        return
    from rich.console import Console

    from client.preview import Preview
    from client.screen import watching

    picture = Preview(opened, given.job).pixels if given.picture else None
    with watching(Console(stderr=True), Told(), opened.progress(given.job), picture) as report:
        yield report
