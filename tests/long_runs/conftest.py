"""A dev server that suggests continue-as-new after a few iterations, and what runs on it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from ..support.dev_server import server_in_memory
from ..support.stage import Stage

SHORT_HISTORY = "limit.historyCount.suggestContinueAsNew=40"
"""About three iterations with one tool call each."""
QUICK_SUCCESSION = 'history.workflowIdReuseMinimalInterval="100ms"'
"""By default a link that follows within a second waits for its end, as here a cancellation may find
it waiting."""


@pytest.fixture(scope="session")
async def short_histories() -> AsyncIterator[WorkflowEnvironment]:
    """A server that suggests continue-as-new after 40 events."""
    async with server_in_memory(SHORT_HISTORY, QUICK_SUCCESSION) as environment:
        yield environment


@pytest.fixture
async def stage(short_histories: WorkflowEnvironment, task_queue: str) -> AsyncIterator[Stage]:
    """Runs of short histories; at the end of the test, what they recorded is replayed."""
    stage = Stage(short_histories.client, task_queue)
    yield stage
    await stage.replay()


@pytest.fixture
async def roomy_stage(client: Client, task_queue: str) -> AsyncIterator[Stage]:
    """Runs on the server of all other tests, which suggests continue-as-new at 4 MB or 4,096
    events.
    """
    stage = Stage(client, task_queue)
    yield stage
    await stage.replay()
