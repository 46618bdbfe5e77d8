"""Stores to test. A back end is one more parameter of new_store_url; every test that asks for a store
then runs against it."""

from __future__ import annotations

import itertools
import os
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from store import LocalStore, Store, open_store
from store.local import LEFTOVER_SECONDS, OWN_FOLDER
from tests.store.s3_server import BUCKET, S3Server, running_server


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with running_server(tmp_path_factory.mktemp("s3") / "weed") as server:
        yield server


@pytest.fixture
def s3_bucket(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The server's bucket, with the environment set for this process and those that it starts."""
    server: S3Server = request.getfixturevalue("s3_server")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}"


@pytest.fixture(params=["local", "s3"])
def new_store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Each call gives the address of another empty store, for this process or for others."""
    numbers = itertools.count()
    if request.param == "local":
        return lambda: str(tmp_path / "stores" / str(next(numbers)))
    bucket, name = request.getfixturevalue("s3_bucket"), uuid.uuid4().hex
    return lambda: f"{bucket}/{name}/{next(numbers)}"


@pytest.fixture
def store_url(new_store_url: Callable[[], str]) -> str:
    return new_store_url()


@pytest.fixture
def store(store_url: str) -> Store:
    return open_store(store_url)


@pytest.fixture
def local(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "root")


def temporaries(store: LocalStore) -> list[Path]:
    return sorted((store.root / OWN_FOLDER / "tmp").iterdir())


def make_old(path: Path) -> None:
    long_ago = time.time() - 2 * LEFTOVER_SECONDS
    os.utime(path, (long_ago, long_ago))


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "waited a minute in vain"
