"""§7.5: neutral messages and options to an Anthropic Messages request."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.json_types import JsonObject
from perdure.messages import ToolCall
from perdure.providers import format_tool_messages, to_request

from ..support.wire_agents import ANTHROPIC, agent, answering, asking, message

THINKING = {"type": "thinking", "thinking": "Where is it?", "signature": "EqQB"}
REDACTED = {"type": "redacted_thinking", "data": "EmwK"}
SAID = {"type": "text", "text": "Looking."}
USED = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"city": "Paris"}}
RESPONSE = {"id": "msg_1", "content": [THINKING, REDACTED, SAID, USED], "stop_reason": "tool_use"}
CALL = ToolCall(id="toolu_1", name="f", arguments='{"city":"Paris"}')


def request(*messages: Any, **fields: Any) -> JsonObject:
    return to_request(agent(ANTHROPIC, **fields), messages)


def turns(*messages: Any) -> Any:
    return request(*messages)["messages"]


def text(value: str) -> dict[str, str]:
    return {"type": "text", "text": value}


def test_systems_and_developers_are_joined() -> None:
    sent = request(message("system", "A"), message("user", "Hi"), message("developer", "B"))
    assert sent["system"] == "A\n\nB"
    assert sent["messages"] == [{"role": "user", "content": [text("Hi")]}]
    assert "system" not in request(message("user", "Hi"))


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (
            {"kind": "image", "source": "AAAA", "mediaType": "image/jpeg"},
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/jpeg", "data": "AAAA"},
            },
        ),
        (
            {"kind": "image", "source": "data:image/gif;base64,AAAA"},
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/gif", "data": "AAAA"},
            },
        ),
        (
            {"kind": "image", "source": "https://x/y.png", "mediaType": "image/png"},
            {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
        ),
        (
            {"kind": "file", "source": "AAAA"},
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"},
            },
        ),
    ],
)
def test_parts(part: JsonObject, block: JsonObject) -> None:
    assert turns(message("user", [part])) == [{"role": "user", "content": [block]}]


def test_all_results_are_in_one_user_turn() -> None:
    assert turns(
        message("user", "Q"),
        asking(("c1", "f", '{"a":1}'), ("c2", "g", ""), text="Looking."),
        answering("c1", "72"),
        answering("c2", "", status="cancelled"),
    ) == [
        {"role": "user", "content": [text("Q")]},
        {
            "role": "assistant",
            "content": [
                text("Looking."),
                {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}},
                {"type": "tool_use", "id": "c2", "name": "g", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "72"},
                {"type": "tool_result", "tool_use_id": "c2", "content": "", "is_error": True},
            ],
        },
    ]


def test_a_steering_message_joins_the_turn_behind_the_results() -> None:
    content = turns(
        asking(("c1", "f", "{}"), ("c2", "f", "{}")),
        answering("c1", "a"),
        message("user", "Stop"),
        answering("c2", "b"),
        message("user", "Now"),
    )[-1]["content"]
    assert [block["type"] for block in content] == ["tool_result", "tool_result", "text", "text"]


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ("", {}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('{"a": 1', {"unparsed_arguments": '{"a": 1'}),
        ("[1]", {"unparsed_arguments": "[1]"}),
        ('{"a": NaN}', {"unparsed_arguments": '{"a": NaN}'}),
    ],
)
def test_input_is_always_an_object(arguments: str, sent: JsonObject) -> None:
    assert (
        turns(message("user", "A"), asking(("c1", "f", arguments)))[1]["content"][0]["input"]
        == sent
    )


def test_blank_text_that_the_api_wrote_is_not_sent_back() -> None:
    response = RESPONSE | {"content": [text("\n\n"), USED]}
    tool_round = format_tool_messages(agent(ANTHROPIC), response, [CALL], ["72"])
    assert turns(*tool_round)[1]["content"] == [USED]


def test_a_rewritten_text_wins_and_the_thinking_stays() -> None:
    tool_round = format_tool_messages(agent(ANTHROPIC), RESPONSE, [CALL], ["72"], text="Redacted.")
    assert turns(*tool_round)[1]["content"] == [THINKING, REDACTED, text("Redacted."), USED]


def test_edited_calls_win() -> None:
    edited = CALL.model_copy(update={"arguments": '{"city":"Rome"}'})
    tool_round = format_tool_messages(agent(ANTHROPIC), RESPONSE, [edited], ["72"])
    assert turns(*tool_round)[1]["content"][-1] == USED | {"input": {"city": "Rome"}}


def test_outputs_are_an_output_format_beside_other_settings() -> None:
    options = {"additionalProperties": {"output_config": {"effort": "low"}}}
    sent = request(outputs=[{"name": "a", "required": True}, {"name": "b"}], options=options)
    assert sent["output_config"] == {
        "effort": "low",
        "format": {
            "type": "json_schema",
            "schema": {
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                "required": ["a"],
                "additionalProperties": False,
            },
        },
    }
