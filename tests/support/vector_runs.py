"""Plays an upstream vector through the workflow, with the model scripted over HTTP."""

from __future__ import annotations

from typing import Any

from perdure.client import RunHandle, get_run
from perdure.errors import RunError
from perdure.testing import ScriptedModel, ScriptedReply, ScriptedRequest
from perdure.testing.script import Script

from .agents import scripted_agent
from .run_vectors import Interruption, Outcome, VectorCase
from .stage import Stage


async def play(stage: Stage, case: VectorCase, wire: str) -> Outcome:
    """Run the vector in that wire format, and return what the run did."""

    async def interrupt(due: Interruption) -> None:
        await send(due, stage.runs[-1])

    guardrails = {"vector": case.guardrails} if case.guardrails else None
    with ScriptedModel(script(case)) as model:
        agent = scripted_agent(model, case.agent["tools"], wire=wire)
        async with stage.worker(case.tools(interrupt), guardrails=guardrails):
            run = await stage.start(agent, case.messages, **options(case))
            for due in case.due_before(1):
                await interrupt(due)
            return await outcome_of(run)


def script(case: VectorCase) -> Script:
    """The vector's replies, by what the conversation holds of them already: trimming may have
    dropped the rest.
    """

    def reply(request: ScriptedRequest) -> ScriptedReply:
        asked = {call.id for message in request.messages for call in message.tool_calls}
        return next(
            reply
            for reply in case.replies
            if not asked.intersection(call.id for call in reply.tool_calls)
        )

    return reply


def options(case: VectorCase) -> dict[str, Any]:
    """The vector's options, for a worker that has its guardrails under the name `vector`."""
    return case.options.model_dump(exclude_unset=True) | (
        {"guardrails": "vector"} if case.guardrails else {}
    )


async def send(due: Interruption, run: RunHandle) -> None:
    await (run.cancel() if due.text is None else run.steer(due.text))


async def outcome_of(run: RunHandle) -> Outcome:
    """What the run did, by what a handle made anew says once it has ended."""
    try:
        result, error = await run.result(), None
    except RunError as failure:
        result, error = None, failure
    events = await get_run(run._client, run.id).events()
    ended = result or error
    assert ended is not None
    return Outcome(
        messages=ended.messages,
        iterations=ended.iterations,
        events=[(event.type, event.data) for event in events],
        result=result.output if result else None,
        error=error,
    )
