"""The upstream vectors of whole runs, through the workflow, in each wire format."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest
from temporalio.testing import WorkflowEnvironment

from ..support.agents import WIRES
from ..support.run_vectors import Outcome, VectorCase, check, load_run_vectors, load_turn_vectors
from ..support.stage import Stage
from ..support.vector_runs import play

CASES = [*load_run_vectors(), *load_turn_vectors()]
AT_ONCE = 6

Outcomes = dict[str, asyncio.Task[dict[str, Outcome]]]


@pytest.fixture(scope="module")
async def outcomes(server: WorkflowEnvironment) -> AsyncIterator[Outcomes]:
    """Every vector in every wire format, some at a time; each on a queue of its own, the histories
    replayed.
    """
    turns = asyncio.Semaphore(AT_ONCE)

    async def run(case: VectorCase) -> dict[str, Outcome]:
        async with turns:
            stage = Stage(server.client, f"test-{uuid.uuid4()}")
            outcomes = await play(stage, case, WIRES)
            await stage.replay()
            return outcomes

    tasks = {case.name: asyncio.create_task(run(case)) for case in CASES}
    yield tasks
    for task in tasks.values():
        task.cancel()
    if tasks:
        await asyncio.wait(tasks.values())


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("case", CASES, ids=str)
async def test_vector(outcomes: Outcomes, case: VectorCase, wire: str) -> None:
    check(case, (await outcomes[case.name])[wire], compact_arguments=wire == "anthropic")
