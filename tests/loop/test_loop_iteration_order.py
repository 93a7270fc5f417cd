"""§13.7: the order of the steps of an iteration, and the events of them (§13.1)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure.errors import RunError
from perdure.guardrails import GuardrailResult, Guardrails
from perdure.json_types import JsonObject
from perdure.messages import Message, ModelReply, Usage
from perdure.testing import ScriptedReply, asks, call, says

from ..support.loop_stage import Stage, fails

TOOL_ROUND = ["llm_start", "llm_complete", "tool_call_start", "tool_result", "messages_updated"]
LAST_ROUND = ["llm_start", "llm_complete", "messages_updated", "done"]


async def test_every_step_in_order() -> None:
    order: list[str] = []

    def noting(what: str) -> Any:
        def judge(*subject: Any) -> GuardrailResult:
            order.append(what)
            return GuardrailResult(allowed=True)

        return judge

    def compact(dropped: list[Message]) -> str:
        order.append("trim")
        return "much was said"

    def reply(given: ScriptedReply) -> Any:
        def step() -> ScriptedReply:
            order.append("model")
            return given

        return step

    def look() -> str:
        order.append("tool")
        return "seen"

    stage = Stage(
        reply(asks("look")),
        reply(says("Done")),
        tools={"look": look},
        guardrails=Guardrails(
            input=noting("input"), output=noting("output"), tool=noting("tool guardrail")
        ),
        compactor=compact,
        messages=[
            Message.user("a" * 300),
            Message.assistant("b" * 300),
            Message.user("c"),
            Message.user("d"),
        ],
        context_budget=300,
    )
    stage.effects.after_checkpoint = lambda state: order.append("checkpoint")
    await stage.play()
    assert order == [
        *["checkpoint", "trim", "input", "model", "output", "tool guardrail", "tool"],
        *["checkpoint", "input", "model", "output"],
    ]


async def test_events_of_a_tool_round_and_of_the_last_round() -> None:
    stage = Stage(
        asks(call("look", at="sky"), text="Let me see"),
        says("Blue"),
        tools={"look": lambda at: "🟦"},
    )
    await stage.play()
    assert stage.types() == [*TOOL_ROUND, *LAST_ROUND]
    assert stage.data("tool_call_start") == [{"name": "look", "arguments": '{"at": "sky"}'}]
    assert stage.data("tool_result") == [{"name": "look", "result": "🟦"}]
    assert stage.data("done") == [{"response": "Blue"}]
    done = stage.events[-1][1]
    assert done["messages"] == stage.messages
    assert stage.data("llm_complete")[0] == {
        "usage": Usage().model_dump(),
        "finishReason": None,
        "costUsd": None,
    }


async def test_messages_updated_holds_the_list_at_that_moment() -> None:
    stage = Stage(asks("look"), says("Blue"), tools={"look": lambda: "🟦"})
    await stage.play()
    lists = [data["messages"] for type, data in stage.events if type == "messages_updated"]
    assert [[message.role for message in messages] for messages in lists] == [
        ["system", "user", "assistant", "tool"],
        ["system", "user", "assistant", "tool", "assistant"],
    ]


async def test_iterations_of_the_events() -> None:
    stage = Stage(asks("look"), says("Blue"), tools={"look": lambda: "🟦"})
    await stage.play()
    events = stage.effects.log.page(0).events
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert [event.iteration for event in events] == [1] * len(TOOL_ROUND) + [2] * len(LAST_ROUND)
    assert [event.call_id for event in events if event.type.startswith("tool_")] == [
        "call_look"
    ] * 2


async def test_an_async_callback_gets_each_event_before_the_run_goes_on() -> None:
    seen: list[Any] = []

    async def on_event(type: str, data: JsonObject) -> None:
        await asyncio.sleep(0.001)
        seen.append(type)
        if type == "status":
            raise LookupError(type)

    def look() -> str:
        return f"after {len(seen)} events"

    stage = Stage(asks("look"), says("Blue"), tools={"look": look}, on_event=on_event)
    await stage.play()
    assert seen == [event.type for event in stage.effects.log.page(0).events]
    assert stage.results() == [f"after {seen.index('tool_call_start') + 1} events"]


async def test_a_failing_callback_disturbs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def on_event(type: str, data: JsonObject) -> None:
        raise LookupError(type)

    stage = Stage(says("Fine"), on_event=on_event)
    assert (await stage.play()).output == "Fine"
    assert "on_event failed for a done event" in caplog.text


async def test_failed_is_the_last_event_of_a_run_that_fails() -> None:
    stage = Stage(fails("authentication", "no such key"))
    with pytest.raises(RunError):
        await stage.play()
    assert stage.types() == ["llm_start", "failed"]
    assert stage.data("failed") == [{"kind": "execute", "message": "LLM call failed: no such key"}]


async def test_the_streamed_text_of_the_last_round_is_one_token_event() -> None:
    stage = Stage(
        asks(call("look"), text="Let me see"),
        says("Blue"),
        tools={"look": lambda: "🟦"},
        stream=True,
    )
    await stage.play()
    assert stage.data("token") == [{"token": "Blue"}]


async def test_a_providers_warnings_are_status_events() -> None:
    stage = Stage(ModelReply(message=Message.assistant("Fine"), warnings=["the seed was ignored"]))
    await stage.play()
    assert stage.said() == ["the seed was ignored"]
