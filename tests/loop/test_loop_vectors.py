"""The upstream vectors of whole runs, in process."""

from __future__ import annotations

import pytest

from perdure.agents import Agent
from perdure.errors import RunError
from perdure.json_types import JsonObject
from perdure.testing import InProcessRun

from ..support.run_vectors import (
    Interruption,
    Outcome,
    VectorCase,
    check,
    load_run_vectors,
    load_turn_vectors,
)


@pytest.mark.parametrize("case", load_run_vectors() + load_turn_vectors(), ids=str)
async def test_vector(case: VectorCase) -> None:
    check(case, await run_in_process(case))


async def run_in_process(case: VectorCase) -> Outcome:
    events: list[tuple[str, JsonObject]] = []

    async def interrupt(due: Interruption) -> None:
        if due.text is None:
            run.cancel()
        else:
            run.steer(due.text)

    run = InProcessRun(
        Agent.model_validate(case.agent),
        case.messages,
        model=case.replies,
        tools=case.tools(interrupt),
        options=case.options,
        guardrails=case.guardrails,
        on_event=lambda type, data: events.append((type, data)),
    )
    for due in case.due_before(1):
        await interrupt(due)
    try:
        result = await run.run()
    except RunError as error:
        return Outcome(
            messages=error.messages, iterations=error.iterations, events=events, error=error
        )
    return Outcome(
        messages=result.messages, iterations=result.iterations, events=events, result=result.output
    )
