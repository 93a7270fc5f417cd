"""Fixtures of the tests that run agents on a real dev server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack

import pytest
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from perdure.testing import ScriptedModel
from perdure.testing.script import Script

from .kill_scenarios import KillScenarios
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


@pytest.fixture(scope="session")
async def kills(server: WorkflowEnvironment, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[KillScenarios]:
    """Runs that are interrupted by SIGKILL, under way from the first test of this folder on."""
    async with KillScenarios.under_way(server.client, tmp_path_factory.mktemp("kills")) as scenarios:
        yield scenarios


@pytest.fixture(scope="session", autouse=True)
def _kills_under_way(request: pytest.FixtureRequest) -> None:
    if not _shared(request.config) and any(map(_kills, request.session.items)):
        request.getfixturevalue("kills")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The kill tests mostly wait, so they begin early, beside others.

    Where one process runs all tests they come last, and their scenarios go on from the start; where several do, one of
    them begins with them.
    """
    items.sort(key=_kills, reverse=_shared(config))


def _kills(item: pytest.Item) -> bool:
    return item.path.name == "test_kills.py"


def _shared(config: pytest.Config) -> bool:
    """Whether this is one of several processes that share the tests (pytest-xdist)."""
    return hasattr(config, "workerinput")
