"""Stores to test. A back end is one more parameter of new_store_url; every test that asks for a store
then runs against it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from store import Store, open_store


@pytest.fixture(params=["local"])
def new_store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Each call gives the address of another empty store, for this process or for others."""
    assert request.param == "local"
    numbers = itertools.count()
    return lambda: str(tmp_path / "stores" / str(next(numbers)))


@pytest.fixture
def store_url(new_store_url: Callable[[], str]) -> str:
    return new_store_url()


@pytest.fixture
def store(store_url: str) -> Store:
    return open_store(store_url)
