"""Spans, by OpenTelemetry, where the standard OTEL_ variables name a receiver; otherwise nothing is imported.

Temporal's headers carry the context from the client through the workflow to its activities, so that one
trace shows a frame from its submit to its publication, whatever processes had a part in it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer
    from temporalio.contrib.opentelemetry import TracingInterceptor

FLUSH_SECONDS = 3.0

log = logging.getLogger("tessera.traces")


class _Tracing:
    """Of this process: set once at its start, read by every span."""

    tracer: Tracer | None = None
    flush: Callable[[], object] | None = None


def start_traces(service: str) -> TracingInterceptor | None:
    """Exports spans by OTLP over HTTP from now on; returns what a Temporal client takes as an interceptor.

    service: the name under which this process's spans are shown, unless OTEL_SERVICE_NAME gives another.
    None where the extra `otel` is not installed, which is logged.
    """
    try:
        from temporalio.contrib.opentelemetry import TracingInterceptor

        if _Tracing.tracer is not None:  # a second client of the process
            return TracingInterceptor(_Tracing.tracer)
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        log.warning("no traces: install tessera[otel]", extra={"missing": error.name})
        return None
    resource = Resource.create({"service.name": service}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    _Tracing.tracer = provider.get_tracer("tessera")
    _Tracing.flush = provider.shutdown
    return TracingInterceptor(_Tracing.tracer)


def end_traces() -> None:
    """Sends what is still held back, for at most FLUSH_SECONDS: a receiver that is away must not hold up a
    command or a worker that leaves. Needed where a process leaves without the interpreter's own end."""
    if _Tracing.flush is not None:
        sender = threading.Thread(target=_Tracing.flush, daemon=True)
        _Tracing.flush = None
        sender.start()
        sender.join(FLUSH_SECONDS)


@contextmanager
def span(name: str, **attributes: str | int | float) -> Iterator[None]:
    """A span for the block, below the one that is open; nothing where there are no traces."""
    if _Tracing.tracer is None:
        yield
        return
    with _Tracing.tracer.start_as_current_span(name, attributes=attributes):
        yield
