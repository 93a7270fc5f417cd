"""Tasks that outlive their gateway; `tests/chaos` has a hundred of them, and kills their workers
too.
"""

from __future__ import annotations

from pathlib import Path

from temporalio.client import Client

from ..support.command_line import Cli
from ..support.mcp_tasks import tasks_over_kills
from ..support.workers import Nursery


async def test_five_tasks_over_kills(client: Client, cli: Cli, tmp_path: Path) -> None:
    async with Nursery() as nursery:
        kills = await tasks_over_kills(
            cli,
            nursery,
            client,
            tmp_path,
            tasks=5,
            at_once=5,
            pauses=(0.1, 0.3),
            most=2,
            victims=["gateway"],
        )
    assert kills["gateway"] >= 1
