"""Fixtures of the tests that run agents on a real dev server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack

import pytest
from temporalio.client import Client

from perdure.testing import ScriptedModel
from perdure.testing.script import Script

from .stage import Stage


@pytest.fixture
async def stage(client: Client, task_queue: str) -> AsyncIterator[Stage]:
    """Runs on a queue of their own; at the end of the test, what they recorded is replayed."""
    stage = Stage(client, task_queue)
    yield stage
    await stage.replay()


@pytest.fixture
def scripted() -> Iterator[Callable[[Script], ScriptedModel]]:
    """Makes scripted models that end with the test."""
    with ExitStack() as models:
        yield lambda script: models.enter_context(ScriptedModel(script))
