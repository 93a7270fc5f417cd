"""A dev server that suggests continue-as-new after a few iterations, and what runs on it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from perdure.client.embedded.launch import FAST, dynamic_config, find_binary
from perdure.payloads.converter import perdure_data_converter
from perdure.protocol import search_attributes

from ..support.stage import Stage

SHORT_HISTORY = "limit.historyCount.suggestContinueAsNew=40"
"""About three iterations with one tool call each."""
QUICK_SUCCESSION = 'history.workflowIdReuseMinimalInterval="100ms"'
"""By default a link that follows within a second waits for its end, as here a cancellation may find it waiting."""


@pytest.fixture(scope="session")
async def short_histories() -> AsyncIterator[WorkflowEnvironment]:
    """A server that suggests continue-as-new after 40 events."""
    binary = find_binary()
    async with await WorkflowEnvironment.start_local(
        data_converter=perdure_data_converter,
        dev_server_existing_path=str(binary) if binary else None,
        dev_server_log_level="error",
        dev_server_extra_args=dynamic_config(*FAST, SHORT_HISTORY, QUICK_SUCCESSION),
        search_attributes=search_attributes.ALL,
    ) as environment:
        yield environment


@pytest.fixture
async def stage(short_histories: WorkflowEnvironment, task_queue: str) -> AsyncIterator[Stage]:
    """Runs of short histories; at the end of the test, what they recorded is replayed."""
    stage = Stage(short_histories.client, task_queue)
    yield stage
    await stage.replay()


@pytest.fixture
async def roomy_stage(client: Client, task_queue: str) -> AsyncIterator[Stage]:
    """Runs on the server of all other tests, which suggests continue-as-new at 4 MB or 4,096 events."""
    stage = Stage(client, task_queue)
    yield stage
    await stage.replay()
