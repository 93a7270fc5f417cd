"""Servers on loopback, and a kind that is closed."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from perdure.tools.openapi.kind import OpenApiKind
from tests.support.raw_server import RawServer, raw_server


@pytest.fixture
async def ours() -> AsyncIterator[RawServer]:
    """The server that may be called."""
    async with raw_server() as server:
        yield server


@pytest.fixture
async def theirs() -> AsyncIterator[RawServer]:
    """Another one, which must not be called."""
    async with raw_server() as server:
        yield server
    assert server.requests == []


@pytest.fixture
async def kind() -> AsyncIterator[OpenApiKind]:
    kind = OpenApiKind()
    yield kind
    await kind.close()
