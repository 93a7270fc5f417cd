"""Tasks that outlive their gateway."""

from __future__ import annotations

from pathlib import Path

from temporalio.client import Client

from ..support.command_line import Cli
from ..support.mcp_tasks import tasks_over_kills
from ..support.workers import Nursery


async def test_five_tasks_over_kills(client: Client, cli: Cli, tmp_path: Path) -> None:
    async with Nursery() as nursery:
        await tasks_over_kills(cli, nursery, client, tmp_path, tasks=5, kills=2)
