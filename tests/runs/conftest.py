"""Fixtures of the tests that run agents on a real dev server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from temporalio.testing import WorkflowEnvironment

from ..support.kill_scenarios import KillScenarios


@pytest.fixture(scope="session")
async def kills(
    server: WorkflowEnvironment, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[KillScenarios]:
    """Runs that are interrupted by SIGKILL, under way from the first test of this folder on."""
    async with KillScenarios.under_way(
        server.client, tmp_path_factory.mktemp("kills")
    ) as scenarios:
        yield scenarios


@pytest.fixture(scope="session", autouse=True)
def _kills_under_way(request: pytest.FixtureRequest) -> None:
    if not _shared(request.config) and any(map(_kills, request.session.items)):
        request.getfixturevalue("kills")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The kill tests mostly wait, so they begin early, beside others.

    Where one process runs all tests they come last, and their scenarios go on from the start; where
    several do, one of them begins with them.
    """
    items.sort(key=_kills, reverse=_shared(config))


def _kills(item: pytest.Item) -> bool:
    return item.path.name == "test_kills.py"


def _shared(config: pytest.Config) -> bool:
    """Whether this is one of several processes that share the tests (pytest-xdist)."""
    return hasattr(config, "workerinput")
