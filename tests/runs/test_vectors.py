"""The upstream vectors of whole runs, through the workflow; the wire formats take turns."""

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
WIRE_OF = {case.name: WIRES[number % len(WIRES)] for number, case in enumerate(CASES)}
"""Each wire format has its turn; the providers' tests have all vectors in all of them."""
AT_ONCE = 6

Outcomes = dict[str, asyncio.Task[Outcome]]


@pytest.fixture(scope="module")
async def outcomes(server: WorkflowEnvironment) -> AsyncIterator[Outcomes]:
    """Every vector in one wire format, some at a time; each on a queue of its own, the histories
    replayed.
    """
    turns = asyncio.Semaphore(AT_ONCE)

    async def run(case: VectorCase) -> Outcome:
        async with turns:
            stage = Stage(server.client, f"test-{uuid.uuid4()}")
            outcome = await play(stage, case, WIRE_OF[case.name])
            await stage.replay()
            return outcome

    tasks = {case.name: asyncio.create_task(run(case)) for case in CASES}
    yield tasks
    for task in tasks.values():
        task.cancel()
    if tasks:
        await asyncio.wait(tasks.values())


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_vector(outcomes: Outcomes, case: VectorCase) -> None:
    is_anthropic = WIRE_OF[case.name] == "anthropic"
    check(case, await outcomes[case.name], compact_arguments=is_anthropic)
