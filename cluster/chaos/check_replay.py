"""The second checker: every history of the namespace is replayed, and must give what it records."""

from __future__ import annotations

from collections.abc import AsyncIterator

from temporalio.client import Client, WorkflowHistory
from temporalio.worker import Replayer

from .histories import events, executions


async def replayed(client: Client, replayer: Replayer) -> tuple[int, list[str]]:
    """The number of histories, and the failures: `ID RUN: error`."""
    wrong: list[str] = []
    count = 0

    async def histories() -> AsyncIterator[WorkflowHistory]:
        async for execution in executions(client):
            yield WorkflowHistory(execution.workflow_id, await events(client, execution))

    async with replayer.workflow_replay_iterator(histories()) as results:
        async for result in results:
            count += 1
            if result.replay_failure:
                id = result.history.workflow_id
                wrong.append(f"{id} {result.history.run_id}: {result.replay_failure}")
    return count, wrong
