"""A server of recorded answers, and the recordings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from perdure.providers import clear_connections, close_clients

from ..support.recorded_server import RecordedServer, recorded_server

RECORDINGS = Path(__file__).parent / "recordings"


def recording(name: str) -> bytes:
    return (RECORDINGS / name).read_bytes()


@pytest.fixture(scope="session")
async def server_of_recordings() -> AsyncIterator[RecordedServer]:
    """One for all tests: the SDKs take 30 ms to make a client for a new address."""
    async with recorded_server() as server:
        yield server
        await close_clients()


@pytest.fixture
def recorded(server_of_recordings: RecordedServer) -> Iterator[RecordedServer]:
    server_of_recordings.forget()
    yield server_of_recordings
    clear_connections()
