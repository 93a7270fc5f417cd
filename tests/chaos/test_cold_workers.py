"""Three hundred iterations over workers that remember nothing and are killed at random."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from temporalio.testing import WorkflowEnvironment

from ..support.cold_workers import check_cold_runs

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]


async def test_in_one_history(server: WorkflowEnvironment, tmp_path: Path, task_queue: str) -> None:
    address = server.client.service_client.config.target_host
    seed = random.randrange(10**6)
    massacre = await check_cold_runs(
        server.client, address, tmp_path, task_queue, rounds=299, seconds=(2.0, 10.0), seed=seed
    )
    print(f"seed {seed}: {massacre.kills} kills")
    assert massacre.kills >= 10
