"""A time-skipping server for each test of a frame, a real one for all tests of sequences in a file."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from tests.workflows.farm import real_server, time_skipping


@pytest_asyncio.fixture
async def env() -> AsyncIterator[WorkflowEnvironment]:
    async with time_skipping() as env:
        yield env


@pytest_asyncio.fixture
async def client(env: WorkflowEnvironment) -> Client:
    return env.client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[Client]:
    """One for a file: a sequence's identity is in its project, and each test has one of its own. Real,
    for the time-skipping server neither describes a frame's search attributes nor knows signals between
    workflows as farms do."""
    async with real_server("--dynamic-config-value", 'history.timerProcessorMaxTimeShift="50ms"') as client:
        yield client
