"""Logs of every process: one line an event on stderr, readable on a terminal, JSON elsewhere."""

from __future__ import annotations

import logging
import sys

import structlog
from structlog.tracebacks import ExceptionDictTransformer
from temporalio import activity, workflow


def configure_logs(level: int = logging.INFO) -> None:
    """Sends standard logging, Temporal's included, through structlog to stderr.

    stdout stays clean: it belongs to --json. Lines of one attempt carry job_id, attempt_id, tile_id and
    worker (telemetry/attempts.py binds them); lines of a workflow carry job_id and run_id.
    """
    workflow.logger.workflow_info_on_message = False  # as fields instead
    activity.logger.activity_info_on_message = False
    renderer: structlog.types.Processor = (
        structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer()
    )
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.stdlib.ExtraAdder(),
        name_temporals_lines,
    ]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                # Without locals: they would fill the disk, and may hold what nobody should read.
                structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),
                renderer,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)


def name_temporals_lines(
    _logger: object, _method: str, event: structlog.types.EventDict
) -> structlog.types.EventDict:
    """Temporal's own names of a workflow or an activity, under the names that our lines have."""
    info = event.pop("temporal_workflow", None)
    if isinstance(info, dict):
        event.update(job_id=info["workflow_id"], run_id=info["run_id"])
    info = event.pop("temporal_activity", None)
    if isinstance(info, dict):
        attempt_id = f"{info['workflow_run_id']}/{info['activity_id']}/{info['attempt']}"
        event.update(job_id=info["workflow_id"], attempt_id=attempt_id)
    event.pop("temporal_log", None)  # the core's own record, whose fields are in the message
    return event
