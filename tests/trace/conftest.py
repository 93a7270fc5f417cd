"""Fixtures of the tests of traces."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client

from ..histories.record import SHORT_HISTORY
from ..support.dev_server import server_in_memory


@pytest.fixture(scope="module")
async def short_links() -> AsyncIterator[Client]:
    """A server that suggests early to continue as new."""
    async with server_in_memory(SHORT_HISTORY) as server:
        yield server.client
