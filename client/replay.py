"""`tessera replay`: whether this version's workflow code goes the way that a job's history went.

Before an upgrade: a control worker of the new version has to be able to take up the frames that run. After a
fault: the workflow's decisions, step by step, on a desk, under a debugger if one likes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from temporalio.client import Client, WorkflowHistory
from temporalio.worker import Replayer
from temporalio.workflow import NondeterminismError

from client.commands import print_document
from client.errors import BadInput, ExitCode
from client.session import session
from settings import Settings, data_converter
from workflows.frame import FrameWorkflow
from workflows.sequence import SequenceWorkflow


async def replay_job(given: argparse.Namespace, settings: Settings) -> ExitCode:
    """JOB is a job's id, or a file that --save or `temporal workflow show --output json` wrote. Exit code 1
    where this version would have decided otherwise."""
    if Path(given.job).is_file():
        history = WorkflowHistory.from_json(Path(given.job).stem, Path(given.job).read_text())
    else:
        async with session(settings) as opened:
            await opened.status(given.job)  # refuses, with a reason, what is no job
            history = await opened.reach(lambda client: fetch_history(client, given.job))
    if given.save is not None:
        Path(given.save).write_text(history.to_json())
    difference = await replay(history)
    if given.json:
        print_document(
            {"job_id": given.job, "events": len(history.events), "same": not difference, "error": difference}
        )
    else:
        verdict = f"ANOTHER way: {difference}" if difference else "the same way"
        print(f"{given.job}: {len(history.events)} events, decided {verdict}")
    return ExitCode.FAILED if difference else ExitCode.DONE


async def fetch_history(client: Client, job: str) -> WorkflowHistory:
    """Of the job's newest run."""
    return await client.get_workflow_handle(job).fetch_history()


async def replay(history: WorkflowHistory) -> str | None:
    """None, or in words where the code here leaves the history."""
    if not history.events:
        raise BadInput("the history is empty")
    replayer = Replayer(workflows=[FrameWorkflow, SequenceWorkflow], data_converter=data_converter())
    try:
        await replayer.replay_workflow(history)
    except NondeterminismError as error:
        return str(error)
    return None
