"""A receiver of OTLP over HTTP: keeps every span that is sent to it."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


class ReceivedSpan(NamedTuple):
    service: str
    name: str
    trace: bytes
    id: bytes
    parent: bytes
    """Empty for a root."""
    seconds: float


class Receiver:
    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.address = f"http://127.0.0.1:{server.server_address[1]}"
        self.spans: list[ReceivedSpan] = []

    def named(self, name: str) -> list[ReceivedSpan]:
        return [span for span in self.spans if span.name == name]

    def ancestors(self, span: ReceivedSpan) -> list[str]:
        """Names from its parent up to the root, as far as the spans have arrived."""
        by_id = {found.id: found for found in self.spans}
        names = []
        while (parent := by_id.get(span.parent)) is not None:
            names.append(parent.name)
            span = parent
        return names

    def take(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            texts = {a.key: a.value.string_value for a in resource.resource.attributes}
            for scope in resource.scope_spans:
                for span in scope.spans:
                    seconds = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9
                    ids = span.trace_id, span.span_id, span.parent_span_id
                    self.spans.append(ReceivedSpan(texts["service.name"], span.name, *ids, seconds))


@contextmanager
def receiver() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            assert self.path == "/v1/traces", self.path
            received.take(body)
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.end_headers()
            self.wfile.write(ExportTraceServiceResponse().SerializeToString())

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        received = Receiver(server)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield received
        finally:
            server.shutdown()
            thread.join()
