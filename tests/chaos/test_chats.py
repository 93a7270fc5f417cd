"""1,000 visits of pages of the AI SDK and of AG-UI, while gateways behind a balancer and the worker
are killed.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from temporalio.client import Client

from ..support.chat_clients import chat_clients
from ..support.chat_kills import chats_over_kills
from ..support.command_line import Cli
from ..support.workers import Nursery


@pytest.mark.timeout(1800)
async def test_1000_visits_over_kills(
    client: Client, cli: Cli, nursery: Nursery, tmp_path: Path
) -> None:
    async with chat_clients() as clients:
        visits, kills = await chats_over_kills(
            cli,
            nursery,
            client,
            clients,
            tmp_path,
            chats=80,
            at_once=8,
            visits=14,
            pauses=(2.0, 5.0),
            requests=1000,
        )
    print(f"{visits} visits, killed: {kills}")
    assert visits >= 1000
    assert min(kills.values()) >= 5
