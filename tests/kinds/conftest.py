"""The other side of tools that are no functions of the worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from temporalio.testing import WorkflowEnvironment

from ..support.needs import lacking
from ..support.remote_weather import KilledWeather
from ..support.typescript_worker import TypeScript, node_modules


@pytest.fixture(scope="session")
def typescript(tmp_path_factory: pytest.TempPathFactory) -> TypeScript:
    """The sources in TypeScript, ready to run."""
    modules = node_modules()
    if modules is None:
        lacking("node, and NODE_PATH with `npm install @temporalio/worker`")
    return TypeScript.prepared(tmp_path_factory.mktemp("typescript"), modules)


@pytest.fixture(scope="session")
async def killed_weather(
    server: WorkflowEnvironment, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[KilledWeather]:
    """A run of a remote agent whose worker is killed, under way from the first test that asks for
    it on.
    """
    scenario = KilledWeather(server, str(tmp_path_factory.mktemp("killed")))
    yield scenario
    scenario.result.cancel()
    await asyncio.wait([scenario.result])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What waits for a scenario that is under way comes last."""
    items.sort(key=lambda item: "killed_weather" in getattr(item, "fixturenames", ()))
