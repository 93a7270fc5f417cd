"""Marks every test of this folder, and gives it worker processes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ..support.workers import Nursery

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.chaos)


@pytest.fixture(scope="session")
async def nursery() -> AsyncIterator[Nursery]:
    """Forks worker processes; all of them end with the session."""
    async with Nursery() as nursery:
        yield nursery
