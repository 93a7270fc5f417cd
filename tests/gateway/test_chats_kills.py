"""Pages that come and go while gateways and worker are killed; `tests/chaos` has a thousand
visits.
"""

from __future__ import annotations

from pathlib import Path

from temporalio.client import Client

from ..support.chat_clients import ChatClients
from ..support.chat_kills import chats_over_kills
from ..support.command_line import Cli
from ..support.workers import Nursery


async def test_some_visits_over_kills(
    client: Client, cli: Cli, clients: ChatClients, tmp_path: Path
) -> None:
    async with Nursery() as nursery:
        visits, kills = await chats_over_kills(
            cli,
            nursery,
            client,
            clients,
            tmp_path,
            chats=2,
            at_once=2,
            visits=5,
            pauses=(0.3, 0.7),
            kills=2,
        )
    assert visits >= 10
    assert kills == {"gateway": 1, "worker": 1}
