"""§8: a provider's raw JSON to the answer, the reply, and the messages that continue the
conversation.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure.activities.heartbeat import Heartbeat
from perdure.activities.model import ask_model
from perdure.errors import ModelError
from perdure.json_types import JsonObject
from perdure.messages import Message, ToolCall, ToolResult, Usage
from perdure.options import RunOptions
from perdure.providers import (
    cast,
    format_tool_messages,
    process_response,
    provider_for,
)

from ..support.recorded_server import Recorded, RecordedServer
from ..support.wire_agents import ANTHROPIC, APIS, CHAT, RESPONSES, agent
from .conftest import recording

Api = tuple[str, str]
NAMES = {CHAT: "chat", RESPONSES: "responses", ANTHROPIC: "anthropic"}
OUTPUTS = [
    {"name": "city", "required": True},
    {"name": "temp", "kind": "integer", "required": True},
]


def recorded_json(api: Api, name: str) -> JsonObject:
    found: JsonObject = json.loads(recording(f"{NAMES[api]}_{name}.json"))
    return found


def saying(api: Api, text: str) -> JsonObject:
    """A response of that API with just this text."""
    if api == CHAT:
        return {"choices": [{"message": {"content": text}}]}
    if api == RESPONSES:
        return {"output": [{"type": "message", "content": [{"type": "output_text", "text": text}]}]}
    return {"content": [{"type": "text", "text": text}]}


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    "response",
    [
        {},
        {"choices": []},
        {"choices": "x"},
        {"output": None},
        {"output": [3]},
        {"content": None},
        {"content": [{}]},
    ],
)
def test_anything_else_is_an_unexpected_format(api: Api, response: JsonObject) -> None:
    with pytest.raises(ValueError, match=r"^Unexpected response format$"):
        process_response(agent(api), response)
    with pytest.raises(
        ModelError, match=r"^Unexpected response format: expected a .* with a list `.*, got {"
    ) as caught:
        provider_for(agent(api)).reply(agent(api), response)
    assert caught.value.kind == "invalid_response"


def test_an_error_in_a_response_is_a_value_error_with_its_text() -> None:
    with pytest.raises(ValueError, match="^No capacity$"):
        process_response(
            agent(RESPONSES),
            {"error": {"code": "server_error", "message": "No capacity"}, "output": []},
        )


@pytest.mark.parametrize(
    ("api", "usage"),
    [
        (
            CHAT,
            {
                "prompt_tokens": 100,
                "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
            },
        ),
        (
            RESPONSES,
            {
                "input_tokens": 100,
                "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
            },
        ),
        (
            ANTHROPIC,
            {
                "input_tokens": 10,
                "cache_read_input_tokens": 60,
                "cache_creation_input_tokens": 30,
                "cache_creation": {"ephemeral_5m_input_tokens": 5, "ephemeral_1h_input_tokens": 25},
            },
        ),
    ],
)
def test_what_the_cache_has_given_and_taken(api: Api, usage: JsonObject) -> None:
    response = {**recorded_json(api, "text"), "usage": usage}
    told = provider_for(agent(api)).reply(agent(api), response).usage
    assert (told.input_tokens, told.cached_input_tokens, told.cache_write_tokens) == (100, 60, 30)
    assert told.cache_write_1h_tokens == (25 if api == ANTHROPIC else 0)
    assert told.cache_share == 0.6


@pytest.mark.parametrize(
    ("told", "total"),
    [
        ({}, 30),
        ({"total_tokens": 0}, 30),
        ({"total_tokens": 7}, 30),
        ({"total_tokens": 35.0}, 35),
        ({"total_tokens": -1}, 30),
        ({"total_tokens": 1e30}, 30),
        ({"total_tokens": float("nan")}, 30),
        ({"total_tokens": "many"}, 30),
    ],
)
async def test_limits_count_at_least_input_and_output(
    told: Any, total: int, recorded: RecordedServer
) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 20, **told}
    recorded.answers(Recorded.of_json({**saying(CHAT, "Hi"), "usage": usage}))
    asked = agent(CHAT, connection={"kind": "key", "endpoint": recorded.url, "apiKey": "k"})
    reply = await ask_model(asked, [Message.user("Hi")], RunOptions(llm_timeout=5), Heartbeat())
    assert reply.usage == Usage(input_tokens=10, output_tokens=20, total_tokens=total)


@pytest.mark.parametrize(
    ("api", "finish_reasons"),
    [
        (CHAT, ("stop", "tool_calls")),
        (RESPONSES, ("completed",) * 2),
        (ANTHROPIC, ("end_turn", "tool_use")),
    ],
)
def test_reply(api: Api, finish_reasons: tuple[str, str]) -> None:
    provider = provider_for(agent(api))
    recorded = recorded_json(api, "text")
    reply = provider.reply(agent(api), recorded)
    assert (reply.message, reply.output, reply.warnings) == (
        Message.assistant("It is 72°F."),
        None,
        [],
    )
    assert (reply.model, reply.response_id) == (recorded["model"], recorded["id"])
    asking = provider.reply(agent(api), recorded_json(api, "tools"))
    assert (reply.finish_reason, asking.finish_reason) == finish_reasons
    assert len(asking.message.tool_calls) == 2


@pytest.mark.parametrize("api", APIS)
def test_outputs_are_validated(api: Api) -> None:
    structured = agent(api, outputs=OUTPUTS)
    provider = provider_for(structured)
    good = provider.reply(structured, saying(api, '{"city": "Paris", "temp": 72}'))
    assert (good.output, good.warnings) == ({"city": "Paris", "temp": 72}, [])
    bad = provider.reply(structured, saying(api, '{"city": "Paris", "temp": "hot"}'))
    assert bad.output == {"city": "Paris", "temp": "hot"}
    assert bad.faults == ["$.temp: 'hot' is not of type 'integer'"]
    none = provider.reply(structured, saying(api, "Hot"))
    assert none.output is None
    assert none.faults == ["the answer is not a JSON object"]


def test_an_optional_output_may_be_null_or_missing() -> None:
    optional = agent(CHAT, outputs=[{"name": "a"}, {"name": "b", "enumValues": ["x"]}])
    for text in ("{}", '{"a": null, "b": null}', '{"a": "y", "b": "x"}'):
        assert provider_for(optional).reply(optional, saying(CHAT, text)).faults == []


def test_cast_reads_the_raw_text() -> None:
    result = process_response(
        agent(CHAT, outputs=OUTPUTS), saying(CHAT, '{"city": "Paris", "temp": 72}')
    )
    assert cast(result, dict[str, int | str]) == {"city": "Paris", "temp": 72}
    assert cast("3", int) == 3
    with pytest.raises(ValueError, match="validation error"):
        cast(result, list[int])


@pytest.mark.parametrize("api", APIS)
def test_format_tool_messages(api: Api) -> None:
    calls = [
        ToolCall(id="c1", name="f", arguments="{}"),
        ToolCall(id="c2", name="f", arguments="{}"),
    ]
    failed = ToolResult.failure("Error: no", kind="failed")
    assert format_tool_messages(agent(api), None, calls, ["", failed], text="Hm.") == [
        Message.assistant("Hm.", calls),
        Message(role="tool", content="", metadata={"tool_call_id": "c1"}),
        Message(
            role="tool", content="Error: no", metadata={"tool_call_id": "c2", "status": "error"}
        ),
    ]
    with pytest.raises(ValueError, match="shorter"):
        format_tool_messages(agent(api), None, calls, ["one"])


def test_what_text_and_calls_can_say_is_not_kept_twice() -> None:
    """§9.5: every original block is sent back, but what can be rebuilt is not recorded a second
    time.
    """

    def keeps(api: Api, response: JsonObject) -> bool:
        return (
            "provider_content"
            in provider_for(agent(api)).reply(agent(api), response).message.metadata
        )

    assert not any(keeps(api, recorded_json(api, "text")) for api in APIS)
    assert not keeps(CHAT, recorded_json(CHAT, "tools"))
    assert keeps(RESPONSES, recorded_json(RESPONSES, "tools"))
    assert keeps(ANTHROPIC, recorded_json(ANTHROPIC, "tools"))
    plain_use = {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}
    assert not keeps(ANTHROPIC, {"content": [{"type": "text", "text": "Hm."}, plain_use]})
