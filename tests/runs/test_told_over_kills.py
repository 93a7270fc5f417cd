"""What waits is told at least once and decided once, also when worker and gateway are killed
meanwhile.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from temporalio.testing import WorkflowEnvironment

from ..support.command_line import Cli
from ..support.told_over_kills import tell_over_kills


@pytest.mark.timeout(300)
async def test_five_waits_over_kills(cli: Cli, server: WorkflowEnvironment, tmp_path: Path) -> None:
    await tell_over_kills(cli, server.client, tmp_path, runs=5, kills=2)


@pytest.mark.chaos
@pytest.mark.timeout(900)
async def test_a_hundred_waits_over_kills(
    cli: Cli, server: WorkflowEnvironment, tmp_path: Path
) -> None:
    await tell_over_kills(cli, server.client, tmp_path, runs=100, kills=20)
