"""Stores to test: every test that asks for one runs against each back end (tests/conftest.py)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from store import LocalStore, Store, open_store
from store.local import LEFTOVER_SECONDS, OWN_FOLDER


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
