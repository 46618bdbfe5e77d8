"""Commands that look after the store: verify and gc."""

from __future__ import annotations

import argparse
import asyncio
from datetime import timedelta

from temporalio.client import Client

from client.commands import print_document
from client.errors import BadInput, ExitCode
from client.gc import Collector
from client.options import age
from client.report import steps
from client.session import session
from client.verify import Verification, load_manifest
from settings import Settings

YOUNGEST = timedelta(days=2)
"""gc may not be asked for less: see store.blobs.TOUCH_AFTER, with room for clocks and slow submits."""


async def verify_job(given: argparse.Namespace, settings: Settings) -> ExitCode:
    """Exit code 1 where the published frame is not what its manifest claims."""
    async with session(settings) as opened:
        job_id, data = load_manifest(opened.store, given.job)
        with steps() as progress:
            verification = Verification(opened.store, job_id, data, progress)
            if given.deep and not verification.faults:
                from client.desk import check_rendering

                check_rendering(opened.store, verification, given.deep, progress)
    faults = verification.faults
    if given.json:
        document = {"job_id": job_id, "verified": not faults, "checked": verification.checked}
        print_document(document | {"faults": faults})
    else:
        for line in verification.checked:
            print(f"checked  {line}")
        for line in faults:
            print(f"FAULT    {line}")
        print(f"{job_id}: " + (f"{len(faults)} faults" if faults else "exactly what its manifest claims"))
    return ExitCode.FAILED if faults else ExitCode.DONE


async def collect_garbage(given: argparse.Namespace, settings: Settings) -> ExitCode:
    older_than = age(given.older_than)
    if older_than < YOUNGEST:
        raise BadInput(f"--older-than: at least {YOUNGEST.days}d, or what is being submitted could go")
    keep_films = None if given.keep_films == "always" else age(given.keep_films)
    async with session(settings) as opened:
        loop = asyncio.get_running_loop()

        def running() -> set[str]:
            if opened.is_new:
                return set()
            return asyncio.run_coroutine_threadsafe(opened.reach(running_jobs), loop).result()

        collector = Collector(opened.store, running, older_than, keep_films, given.dry_run)
        await asyncio.to_thread(collector.collect)
    if given.json:
        print_document({"dry_run": given.dry_run, "removed": collector.removed, "bytes": collector.freed})
        return ExitCode.DONE
    for kind, number in (+collector.removed).items():
        print(f"{number:8} {kind}")
    verb = "would free" if given.dry_run else "freed"
    print(f"{verb} {collector.freed / 1e6:,.1f} MB in {settings.store_url}")
    return ExitCode.DONE


async def running_jobs(client: Client) -> set[str]:
    """The ids of the frames and sequences that run. What a sequence's frames are is in its record."""
    query = "WorkflowType IN ('FrameWorkflow', 'SequenceWorkflow') AND ExecutionStatus = 'Running'"
    return {execution.id async for execution in client.list_workflows(query)}
