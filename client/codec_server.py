"""`tessera codec-server`: decrypts for the Temporal Web UI and the temporal command line.

They send what they cannot read to this server and show its answer (Temporal's remote codec protocol: POST
/decode and /encode with payloads as JSON). Whoever reaches it can read what is encrypted: it listens on the
loopback interface unless told otherwise, and answers pages of one origin only.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from google.protobuf import json_format
from temporalio.api.common.v1 import Payloads
from temporalio.converter import PayloadCodec

from client.errors import BadInput, ExitCode
from codec import EncryptionCodec, KeyProblem, parse_keys
from settings import Settings

LARGEST = 16 << 20
"""Bytes of one question. Temporal keeps no payload above 2 MB."""

log = logging.getLogger("tessera.codec")


async def serve_codec(given: argparse.Namespace, settings: Settings) -> ExitCode:
    """Until Ctrl-C."""
    keys = parse_keys(settings.encryption_keys.get_secret_value())
    if not keys:
        raise BadInput("no keys: set TESSERA_ENCRYPTION_KEYS as clients and workers have it")
    host, _, port = given.listen.rpartition(":")
    if not (host and port.isdecimal()):
        raise BadInput(f"--listen {given.listen}: has to be host:port")
    server = make_server(host, int(port), EncryptionCodec(keys), given.origin)
    print(f"http://{host}:{server.server_port} decrypts for {given.origin}", flush=True)
    try:
        await asyncio.to_thread(server.serve_forever)
    finally:
        server.shutdown()
    return ExitCode.DONE


def make_server(host: str, port: int, codec: PayloadCodec, origin: str) -> ThreadingHTTPServer:
    """Port 0 takes a free one. origin: of the Web UI, such as http://localhost:8233."""

    class Handler(BaseHTTPRequestHandler):
        def do_OPTIONS(self) -> None:
            self._answer(204)

        def do_POST(self) -> None:
            convert = {"/decode": codec.decode, "/encode": codec.encode}.get(urlsplit(self.path).path)
            length = int(self.headers.get("Content-Length", 0))
            if convert is None or not 0 < length <= LARGEST:
                self._answer(404 if convert is None else 413)
                return
            try:
                asked = json_format.Parse(self.rfile.read(length), Payloads())
                answer = Payloads(payloads=asyncio.run(convert(asked.payloads)))
            except (json_format.ParseError, KeyProblem) as error:
                log.warning("cannot answer", extra={"error": str(error)})
                self._answer(400, str(error).encode(), "text/plain")
                return
            self._answer(200, json_format.MessageToJson(answer).encode(), "application/json")

        def _answer(self, status: int, body: bytes = b"", kind: str = "text/plain") -> None:
            self.send_response(status)
            self.send_header("Access-Control-Allow-Origin", origin)
            self.send_header("Access-Control-Allow-Methods", "POST, OPTIONS")
            self.send_header("Access-Control-Allow-Headers", "content-type, x-namespace, authorization")
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            log.debug(format, *args)

    return ThreadingHTTPServer((host, port), Handler)
