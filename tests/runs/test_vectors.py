"""Upstream vectors of whole runs, through the workflow: those that cancel, steer, trim, deny and
fail. All of them are played in process.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perdure.client import RunHandle
from perdure.errors import RunError
from perdure.testing import ScriptedModel, ScriptedReply, ScriptedRequest
from perdure.testing.script import Script

from ..support.agents import WIRES, scripted_agent
from ..support.run_vectors import Interruption, Outcome, VectorCase, check, load_run_vectors
from ..support.stage import Stage

NAMES = (
    "cancellation_between_iterations",
    "context_trim_basic",
    "guardrail_all_pass",
    "parallel_tools_basic",
    "steering_inject_message",
    "tool_not_registered_error",
)
CASES = [case for case in load_run_vectors() if case.name in NAMES]


@pytest.mark.parametrize(("number", "case"), list(enumerate(CASES)), ids=str)
async def test_vector(
    stage: Stage, scripted: Callable[[Script], ScriptedModel], number: int, case: VectorCase
) -> None:
    wire = WIRES[number % len(WIRES)]

    async def interrupt(due: Interruption) -> None:
        run = stage.runs[-1]
        await (run.cancel() if due.text is None else run.steer(due.text))

    def reply(request: ScriptedRequest) -> ScriptedReply:
        """By what the conversation holds of the replies already: trimming may have dropped some."""
        asked = {call.id for message in request.messages for call in message.tool_calls}
        return next(
            reply
            for reply in case.replies
            if not asked.intersection(call.id for call in reply.tool_calls)
        )

    options = case.options.model_dump(exclude_unset=True)
    guardrails = {"vector": case.guardrails} if case.guardrails else None
    agent = scripted_agent(scripted(reply), case.agent["tools"], wire=wire)
    async with stage.worker(case.tools(interrupt), guardrails=guardrails):
        named = {"guardrails": "vector"} if guardrails else {}
        run = await stage.start(agent, case.messages, **options, **named)
        outcome = await outcome_of(run)
    check(case, outcome, compact_arguments=wire == "anthropic")


async def outcome_of(run: RunHandle) -> Outcome:
    try:
        result, error = await run.result(), None
    except RunError as failure:
        result, error = None, failure
    ended = result or error
    assert ended is not None
    return Outcome(
        messages=ended.messages,
        iterations=ended.iterations,
        events=[(event.type, event.data) for event in await run.events()],
        result=result.output if result else None,
        error=error,
    )
