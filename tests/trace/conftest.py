"""Fixtures of the tests of traces."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from perdure.client.embedded.launch import FAST, dynamic_config, find_binary
from perdure.payloads.converter import perdure_data_converter
from perdure.protocol import search_attributes

from ..histories.record import SHORT_HISTORY


@pytest.fixture(scope="module")
async def short_links() -> AsyncIterator[Client]:
    """A server that suggests early to continue as new."""
    binary = find_binary()
    async with await WorkflowEnvironment.start_local(
        data_converter=perdure_data_converter,
        dev_server_existing_path=str(binary) if binary else None,
        dev_server_log_level="error",
        dev_server_extra_args=dynamic_config(*FAST, SHORT_HISTORY),
        search_attributes=search_attributes.ALL,
    ) as server:
        yield server.client
