"""A proxy before an S3 server that fails on demand, request by request."""

from __future__ import annotations

import http.client
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import urlsplit

RESET_BEFORE = "reset before the server saw it"
RESET_AFTER = "reset after the server did it"
STALL = "no reply"
CUT = "reply cut in the middle"
FLIP = "one byte of the reply flipped"
PASS = "pass"


class Gate(NamedTuple):
    """Holds the next request of this method whose path has this part, before the server sees it."""

    method: str
    part: str
    reached: threading.Event
    opened: threading.Event
    """Then it goes on to the server, whether or not who sent it still lives."""


class Proxy:
    """faults: what happens to the next requests, in order; a number is answered as this status. methods
    bounds them to requests of these methods."""

    def __init__(self, endpoint: str) -> None:
        self.upstream = urlsplit(endpoint).netloc
        self.faults: deque[str | int] = deque()
        self.methods = {"PUT", "GET", "HEAD", "DELETE"}
        self.seen: list[str] = []
        self.release = threading.Event()
        self.gate: Gate | None = None
        self._lock = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"

    def next_fault(self, method: str) -> str | int:
        self.seen.append(method)
        with self._lock:
            return self.faults.popleft() if self.faults and method in self.methods else PASS

    def replace_faults(self, faults: Iterable[str | int], *methods: str) -> None:
        """What is left of the old ones goes."""
        with self._lock:
            self.methods = set(methods)
            self.faults = deque(faults)

    def wait_at_gate(self, method: str, path: str) -> None:
        with self._lock:
            gate = self.gate
            if gate is None or gate.method != method or gate.part not in path:
                return
            self.gate = None
        gate.reached.set()
        gate.opened.wait(30)

    def _handler(proxy) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle(self) -> None:
                with suppress(ConnectionError):  # who asked was killed, or gave up
                    super().handle()

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                fault = proxy.next_fault(self.command)
                if fault == RESET_BEFORE:
                    return self.hang_up()
                if isinstance(fault, int):
                    return self.answer(fault, {"Content-Length": "0"}, b"")
                proxy.wait_at_gate(self.command, self.path)
                try:
                    status, headers, reply = self.forward(body)
                except (OSError, http.client.HTTPException):  # the server is away
                    return self.hang_up()
                if fault == RESET_AFTER:
                    return self.hang_up()
                if fault == STALL:
                    proxy.release.wait(30)
                    return self.hang_up()
                if fault == FLIP and reply:
                    reply = reply[:-40] + bytes([reply[-40] ^ 1]) + reply[-39:]
                self.answer(status, headers, reply[: len(reply) // 2] if fault == CUT else reply)
                if fault == CUT:
                    self.hang_up()

            def forward(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
                upstream = http.client.HTTPConnection(proxy.upstream, timeout=20)
                upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():  # Host too: it is part of the signature
                    if name.lower() not in ("connection", "expect"):
                        upstream.putheader(name, value)
                upstream.endheaders(body)
                reply = upstream.getresponse()
                return reply.status, dict(reply.getheaders()), reply.read()

            def answer(self, status: int, headers: dict[str, str], reply: bytes) -> None:
                self.send_response_only(status)
                for name, value in headers.items():
                    if name.lower() not in ("connection", "transfer-encoding"):
                        self.send_header(name, value)
                self.end_headers()
                self.wfile.write(reply)

            def hang_up(self) -> None:
                self.close_connection = True
                self.connection.close()

            def log_message(self, format: str, *arguments: object) -> None:
                return

            do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = handle_any

        return Handler


@contextmanager
def running_proxy(endpoint: str) -> Iterator[Proxy]:
    proxy = Proxy(endpoint)
    thread = threading.Thread(target=proxy.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.release.set()
        proxy.server.shutdown()
        proxy.server.server_close()
        thread.join()
