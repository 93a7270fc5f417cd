"""The model receives the right conversation whoever calls it: nothing rests on what a worker
remembers.
"""

from __future__ import annotations

from pathlib import Path

from temporalio.testing import WorkflowEnvironment

from ..support.cold_workers import check_cold_runs


async def test_twenty_rounds_over_workers_that_forget_and_die(
    short_histories: WorkflowEnvironment, tmp_path: Path, task_queue: str
) -> None:
    client = short_histories.client
    address = client.service_client.config.target_host
    massacre = await check_cold_runs(
        client, address, tmp_path, task_queue, rounds=20, seconds=(0.5, 1.5), seed=1, most_kills=5
    )
    assert massacre.kills >= 3
