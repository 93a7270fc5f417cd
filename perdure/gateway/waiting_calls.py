"""The calls that wait for a person, among the runs that the client may see."""

from __future__ import annotations

import asyncio

from temporalio.client import WorkflowExecution

from ..client import RunHandle
from ..client.listing import status_condition
from ..errors import ConfigurationError, RunNotFound
from ..protocol.search_attributes import AGENT
from .gateway import Gateway
from .identity import Identity
from .own_types import Waiting

AT_ONCE = 20
"""The number of runs that are queried at the same time for waiting calls."""
MAX_RUNS = 200


async def waiting_calls(
    gateway: Gateway, identity: Identity, limit: int = MAX_RUNS
) -> list[Waiting]:
    """Return the waiting calls of the newest runs that wait, at most `limit` runs; without those of
    runs that this process cannot read, such as encrypted ones.
    """
    runs = await gateway.list(identity, [status_condition("waiting")], limit=limit)
    places = asyncio.Semaphore(AT_ONCE)

    async def ask(run: WorkflowExecution) -> list[Waiting]:
        async with places:
            try:
                status = await RunHandle(gateway.client, run.id).status()
            except (ConfigurationError, RunNotFound):
                return []
        agent = run.typed_search_attributes.get(AGENT)
        # The waits of a child run are listed with that run.
        return [
            Waiting(run_id=run.id, agent=agent, call=each)
            for each in status.pending_approvals
            if not each.run_id
        ]

    return [each for found in await asyncio.gather(*map(ask, runs)) for each in found]
