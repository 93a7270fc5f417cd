"""Which reply a request gets from the scripted model, and which conversations it refuses."""

from __future__ import annotations

from typing import Any

import anthropic
import openai
import pytest

from perdure.testing import ScriptedReply, ScriptedRequest

from .conftest import QUESTION

TOOL_USE = {"id": "a", "name": "f", "input": {}}


async def test_the_step_is_the_number_of_assistant_turns(serve: Any) -> None:
    model, clients = serve([ScriptedReply(text=str(step)) for step in range(5)])
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    turn = [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a"},
    ]
    assert (await clients.chat([*QUESTION, *turn, *turn])).choices[0].message.content == "2"
    turn = [
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}]},
    ]
    assert (await clients.messages([*QUESTION, *turn])).content[0].text == "1"
    calls = [{"type": "function_call", "call_id": c, "name": "f", "arguments": "{}"} for c in "ab"]
    outputs = [{"type": "function_call_output", "call_id": c, "output": "x"} for c in "ab"]
    thinking = {"type": "reasoning", "id": "r", "summary": []}
    said = {"role": "assistant", "content": "hm"}
    items = [
        *QUESTION,
        thinking,
        said,
        *calls,
        *outputs,
        thinking,
        *calls,
        *outputs,
        said,
        *QUESTION,
    ]
    assert (await clients.responses(items)).output_text == "3"
    assert [request.step for request in model.requests] == [2, 1, 3]


async def test_a_function_reads_the_conversation_in_neutral_form(serve: Any) -> None:
    def script(request: ScriptedRequest) -> ScriptedReply:
        said = [
            f"{message.role}:{message.text}:{len(message.tool_calls)}"
            for message in request.messages
        ]
        return ScriptedReply(text=" ".join(said))

    _, clients = serve(script)
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    chat: Any = [
        {"role": "system", "content": "S"},
        {"role": "user", "content": [{"type": "text", "text": "Q"}]},
        {"role": "assistant", "content": "T", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "R"},
    ]
    expected = "system:S:0 user:Q:0 assistant:T:1 tool:R:0"
    assert (await clients.chat(chat)).choices[0].message.content == expected
    items: Any = [
        {"role": "user", "content": [{"type": "input_text", "text": "Q"}]},
        {"role": "assistant", "content": "T"},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "R"},
    ]
    assert (await clients.responses(items, instructions="S")).output_text == expected
    turns: Any = [
        {"role": "user", "content": "Q"},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "T"}, {"type": "tool_use", **TOOL_USE}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "R"}]},
    ]
    assert (await clients.messages(turns, system="S")).content[0].text == expected


async def test_an_exhausted_script_says_so(serve: Any) -> None:
    _, clients = serve([])
    for call in (clients.chat, clients.responses):
        with pytest.raises(openai.BadRequestError, match="scripted model: no reply for step 0"):
            await call()
    with pytest.raises(anthropic.BadRequestError, match="scripted model: no reply for step 0"):
        await clients.messages()


async def test_a_conversation_that_the_provider_would_refuse_is_refused(serve: Any) -> None:
    _, clients = serve([ScriptedReply(text="never")] * 3)
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    with pytest.raises(openai.BadRequestError, match="did not have response messages: a"):
        await clients.chat(
            [*QUESTION, {"role": "assistant", "content": "", "tool_calls": [call]}, *QUESTION]
        )
    with pytest.raises(openai.BadRequestError, match="must be a response to a preceding"):
        await clients.chat([*QUESTION, {"role": "tool", "tool_call_id": "a", "content": "x"}])
    with pytest.raises(openai.BadRequestError, match="No tool output found for function call a"):
        await clients.responses(
            [{"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}]
        )
    with pytest.raises(openai.BadRequestError, match="No tool call found .* call_id a"):
        await clients.responses([{"type": "function_call_output", "call_id": "a", "output": "x"}])
    asked: Any = {"role": "assistant", "content": [{"type": "tool_use", **TOOL_USE}]}
    with pytest.raises(
        anthropic.BadRequestError, match=r"messages.1: `tool_use` ids were found without .*: a\."
    ):
        await clients.messages([*QUESTION, asked, *QUESTION])
    with pytest.raises(anthropic.BadRequestError, match="unexpected `tool_use_id`"):
        await clients.messages(
            [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}]
        )
    with pytest.raises(anthropic.BadRequestError, match="must be non-empty"):
        await clients.messages([{"role": "user", "content": [{"type": "text", "text": ""}]}])
