"""What the scripted model answers, as the providers' own SDKs read it."""

from __future__ import annotations

import json
from typing import Any

from perdure.messages import ToolCall
from perdure.testing import ScriptedReply

from .conftest import QUESTION

CALLS = [
    ToolCall(
        id="call_1",
        name="get_weather",
        arguments='{"city": "Paris", "note": "a value longer than one piece"}',
    ),
    ToolCall(id="call_2", name="get_time", arguments='{"zone": "CET"}'),
]
REPLY = ScriptedReply(text="Let me look. ", tool_calls=CALLS, thinking="Two tools are needed.")


async def test_input_from_the_cache_is_told_in_every_format(serve: Any) -> None:
    _, clients = serve([ScriptedReply(text="Sunny.", input_tokens=10, cached_input_tokens=8)])
    chat, responses, messages = (
        await clients.chat(),
        await clients.responses(),
        await clients.messages(),
    )
    assert (chat.usage.prompt_tokens, chat.usage.prompt_tokens_details.cached_tokens) == (10, 8)
    assert (responses.usage.input_tokens, responses.usage.input_tokens_details.cached_tokens) == (
        10,
        8,
    )
    assert (messages.usage.input_tokens, messages.usage.cache_read_input_tokens) == (2, 8)


async def test_chat_streams_deltas_then_usage(serve: Any) -> None:
    _, clients = serve([REPLY])
    async with clients.openai.chat.completions.stream(
        model="m", messages=QUESTION, stream_options={"include_usage": True}
    ) as stream:
        kinds = [event.type async for event in stream]
        final = await stream.get_final_completion()
    assert kinds.count("content.delta") == 5
    assert "tool_calls.function.arguments.delta" in kinds
    assert final.choices[0].message.content == REPLY.text
    assert [c.function.arguments for c in final.choices[0].message.tool_calls] == [
        c.arguments for c in CALLS
    ]
    assert final.usage.prompt_tokens > 0


async def test_responses_stream_every_item_from_added_to_done(serve: Any) -> None:
    _, clients = serve([REPLY])
    events = [event async for event in await clients.responses(stream=True)]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == "response.completed"
    assert (
        kinds.count("response.output_item.added") == kinds.count("response.output_item.done") == 4
    )
    assert (
        "".join(e.delta for e in events if e.type == "response.reasoning_summary_text.delta")
        == REPLY.thinking
    )
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == REPLY.text
    assert [e.arguments for e in events if e.type == "response.function_call_arguments.done"] == [
        c.arguments for c in CALLS
    ]
    assert [item.type for item in events[-1].response.output][-1] == "function_call"


async def test_anthropic_streams_blocks_that_the_sdk_puts_together(serve: Any) -> None:
    _, clients = serve([REPLY])
    async with clients.anthropic.messages.stream(
        model="m", max_tokens=9, messages=QUESTION
    ) as stream:
        kinds = [event.type async for event in stream]
        final = await stream.get_final_message()
    assert kinds[0] == "message_start"
    assert kinds[-1] == "message_stop"
    assert [block.type for block in final.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert (final.content[0].thinking, final.content[1].text) == (REPLY.thinking, REPLY.text)
    assert final.content[0].signature
    assert [block.input for block in final.content[2:]] == [json.loads(c.arguments) for c in CALLS]
    assert final.stop_reason == "tool_use"


async def test_malformed_arguments_arrive_as_written(serve: Any) -> None:
    _, clients = serve([ScriptedReply(tool_calls=[ToolCall(id="c", name="f", arguments='{"a": ')])])
    assert (await clients.chat()).choices[0].message.tool_calls[0].function.arguments == '{"a": '
    assert (await clients.responses()).output[0].arguments == '{"a": '
    assert (await clients.messages()).content[0].input == '{"a": '
    deltas = [
        e.delta.partial_json
        async for e in await clients.messages(stream=True)
        if e.type == "content_block_delta"
    ]
    assert "".join(deltas) == '{"a": '
