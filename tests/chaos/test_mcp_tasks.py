"""100 MCP tasks while gateway and worker are killed again and again: none is lost, none is started
twice.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from temporalio.client import Client

from ..support.command_line import Cli
from ..support.mcp_tasks import tasks_over_kills
from ..support.workers import Nursery

TASKS = 100


@pytest.mark.timeout(900)
async def test_100_tasks_over_kills(
    client: Client, cli: Cli, nursery: Nursery, tmp_path: Path
) -> None:
    kills = await tasks_over_kills(
        cli, nursery, client, tmp_path, tasks=TASKS, at_once=10, pauses=(1.0, 3.0)
    )
    print(f"{TASKS} tasks, killed: {kills}")
    assert min(kills.values()) >= 5
