"""A time-skipping server for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from tests.workflows.farm import (
    time_skipping,
)


@pytest_asyncio.fixture
async def env() -> AsyncIterator[WorkflowEnvironment]:
    async with time_skipping() as env:
        yield env


@pytest_asyncio.fixture
async def client(env: WorkflowEnvironment) -> Client:
    return env.client
