"""Every conversation that the loop can build is valid for every API (§9.5, §13.2, §13.3, §13.5).

A conversation is built by the loop's own operations: a prompt, then rounds of steering, trimming, a
model's reply in one of the three formats (so that providers change mid-run), tool results of any
kind, and rewritten texts. What each API demands is checked on the request.
"""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.messages import ImagePart, Message, TextPart, ToolCall, ToolResult
from perdure.providers import provider_for
from perdure.text import says_something
from perdure.trimming import trim_to_context_window

from ..support.wire_agents import ANTHROPIC, APIS, CHAT, RESPONSES, agent

Json = dict[str, Any]

TEXTS = st.sampled_from(["", " \n", "Hi", "a longer text " * 20]) | st.text(max_size=8)
NAMES = st.sampled_from(["look", "get_weather", "made.up name!", ""])
ARGUMENTS = st.sampled_from(
    ["{}", "", '{"city":"Paris"}', '```json\n{"a":1,}\n```', '{"a": ', "[1]", "null"]
)
IDS = st.sampled_from(["call_%d", "toolu_%d", "functions.look:%d"])
PARTS = st.lists(
    TEXTS.map(lambda text: TextPart(value=text)) | st.just(ImagePart(source="https://x/y.png")),
    max_size=3,
)
RESULTS = st.builds(
    ToolResult, parts=PARTS, status=st.sampled_from(["success", "error", "cancelled", "timeout"])
)


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    messages = draw(st.lists(TEXTS.map(Message.system), max_size=2)) + [Message.user("Go on.")]
    counter = iter(range(1000))
    for _ in range(draw(st.integers(0, 5))):
        messages += draw(st.lists(TEXTS.map(Message.user), max_size=2))
        if draw(st.booleans()):
            messages, _ = trim_to_context_window(messages, draw(st.integers(100, 2000)))
        asking = draw(replies([draw(IDS) % next(counter) for _ in range(draw(st.integers(0, 3)))]))
        messages.append(asking)
        messages += [Message.tool(call, draw(RESULTS)) for call in asking.tool_calls]
    if messages[-1].role == "assistant":
        messages.append(draw(st.just(Message.user("And now?"))))
    return messages


@st.composite
def replies(draw: st.DrawFn, ids: list[str]) -> Message:
    """A reply as one of the APIs gives it; now and then a guardrail rewrites its text."""
    api = draw(st.sampled_from(APIS))
    calls = [ToolCall(id=id_, name=draw(NAMES), arguments=draw(ARGUMENTS)) for id_ in ids]
    text = draw(TEXTS if calls else TEXTS.filter(says_something))
    response = RESPONSE_OF[api](text, calls, draw(st.booleans()))
    message = provider_for(agent(api)).reply(agent(api), response).message
    return draw(
        st.just(message)
        | TEXTS.map(lambda text: message.model_copy(update={"parts": [TextPart(value=text)]}))
    )


def chat_response(text: str, calls: list[ToolCall], thinks: bool) -> Json:
    asked = [call.to_metadata() for call in calls]
    return {
        "choices": [
            {"message": {"content": text, "tool_calls": asked, "reasoning_content": "Hm." * thinks}}
        ]
    }


def responses_response(text: str, calls: list[ToolCall], thinks: bool) -> Json:
    reasoning = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "gAAA"}
    said = {
        "type": "message",
        "id": "msg",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text}],
    }
    asked = [
        {
            "type": "function_call",
            "id": "fc",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
        }
        for call in calls
    ]
    return {"id": "resp", "output": [reasoning] * thinks + [said] * bool(text) + asked}


def anthropic_response(text: str, calls: list[ToolCall], thinks: bool) -> Json:
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "EqQB"}
    said = {"type": "text", "text": text}
    used = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": parsed(call.arguments)}
        for call in calls
    ]
    return {"id": "msg", "content": [thinking] * thinks + [said] * bool(text) + used}


def parsed(arguments: str) -> Any:
    """The API gives an object; a stream that was cut off gives text."""
    try:
        value = json.loads(arguments)
    except ValueError:
        return arguments
    return value if isinstance(value, dict) else arguments


RESPONSE_OF = {CHAT: chat_response, RESPONSES: responses_response, ANTHROPIC: anthropic_response}


@given(conversations())
@settings(max_examples=100, deadline=None)
def test_openai_chat(messages: list[Message]) -> None:
    sent = provider_for(agent(CHAT)).to_request(agent(CHAT), messages)["messages"]
    open_calls: list[str] = []
    for message in sent:
        if message["role"] == "tool":
            open_calls.remove(message["tool_call_id"])
            continue
        assert not open_calls, "every call is answered before anything else is said"
        assert not {"provider_content", "status"} & set(message)
        open_calls = [call["id"] for call in message.get("tool_calls", [])]
        assert all(is_name(call["function"]["name"]) for call in message.get("tool_calls", []))
    assert not open_calls
    json.dumps(sent)


@given(conversations())
@settings(max_examples=100, deadline=None)
def test_openai_responses(messages: list[Message]) -> None:
    sent = provider_for(agent(RESPONSES)).to_request(agent(RESPONSES), messages)["input"]
    open_calls: list[str] = []
    previous = ""
    for item in sent:
        kind = item.get("type", "message")
        if previous == "reasoning":
            assert kind != "message" or item["role"] == "assistant", (
                "reasoning comes before what it led to"
            )
        previous = kind
        if kind == "function_call_output":
            open_calls.remove(item["call_id"])
        elif kind == "function_call":
            assert is_name(item["name"])
            open_calls.append(item["call_id"])
        else:
            assert not open_calls
    assert not open_calls
    json.dumps(sent)


@given(conversations())
@settings(max_examples=100, deadline=None)
def test_anthropic(messages: list[Message]) -> None:
    sent = provider_for(agent(ANTHROPIC)).to_request(agent(ANTHROPIC), messages)["messages"]
    asked: list[str] = []
    own = {used["id"] for message in messages for used in blocks_of(message)}
    for number, turn in enumerate(sent):
        assert turn["role"] == ("assistant" if number % 2 else "user")
        kinds = [block["type"] for block in turn["content"]]
        assert kinds, "no turn is empty"
        assert not any(
            block["type"] == "text" and not block["text"].strip() for block in turn["content"]
        )
        results = [
            block["tool_use_id"] for block in turn["content"] if block["type"] == "tool_result"
        ]
        assert kinds[: len(results)] == ["tool_result"] * len(results), "results come first"
        assert sorted(results) == sorted(asked), (
            "the turn answers exactly what the one before it asked for"
        )
        uses = [block for block in turn["content"] if block["type"] == "tool_use"]
        assert all(isinstance(block["input"], dict) and is_name(block["name"]) for block in uses)
        asked = [block["id"] for block in uses]
        assert all(re.fullmatch(r"[a-zA-Z0-9_-]+", id_) for id_ in {*asked} - own), (
            "what it gave, it takes back"
        )
    assert not asked
    json.dumps(sent)


def blocks_of(message: Message) -> list[Json]:
    """The calls as Anthropic's API itself has given them."""
    kept = message.metadata.get("provider_content") or {"api": ""}
    return (
        [block for block in kept["content"] if block["type"] == "tool_use"]
        if kept["api"] == "anthropic"
        else []
    )


def is_name(name: str) -> bool:
    return re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) is not None
