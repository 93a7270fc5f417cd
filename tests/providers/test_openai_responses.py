"""§7.4: neutral messages and options to a Responses request."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.json_types import JsonObject
from perdure.messages import ToolCall
from perdure.providers import format_tool_messages, to_request

from ..support.wire_agents import RESPONSES, agent, answering, asking, message

REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
SAID = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Looking.", "annotations": []}],
}
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "c1",
    "name": "f",
    "arguments": "{}",
    "status": "completed",
}
RESPONSE = {"id": "resp_1", "status": "completed", "output": [REASONING, SAID, CALL]}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "72"}


def request(*messages: Any, **fields: Any) -> JsonObject:
    return to_request(agent(RESPONSES, **fields), messages)


@pytest.mark.parametrize(
    ("part", "sent"),
    [
        ({"kind": "text", "value": "t"}, {"type": "input_text", "text": "t"}),
        (
            {"kind": "image", "source": "https://x/y.png", "detail": "high"},
            {"type": "input_image", "image_url": "https://x/y.png", "detail": "high"},
        ),
        (
            {"kind": "file", "source": "https://x/y.pdf"},
            {"type": "input_file", "file_url": "https://x/y.pdf"},
        ),
        (
            {"kind": "file", "source": "AAAA", "mediaType": "application/pdf"},
            {
                "type": "input_file",
                "filename": "file.pdf",
                "file_data": "data:application/pdf;base64,AAAA",
            },
        ),
        (
            {"kind": "audio", "source": "AAAA", "mediaType": "audio/wav"},
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        ),
    ],
)
def test_parts_have_the_names_of_this_api(part: JsonObject, sent: JsonObject) -> None:
    content = request(message("user", [{"kind": "text", "value": "See"}, part]))["input"][0][
        "content"
    ]
    assert content == [{"type": "input_text", "text": "See"}, sent]


def test_a_tool_round_is_calls_and_outputs() -> None:
    sent = request(
        asking(("c1", "f", "{}"), ("c2", "g", '{"a":1}'), text="Looking."),
        answering("c1", "72"),
        answering("c2", ""),
    )
    assert sent["input"] == [
        {"role": "assistant", "content": "Looking."},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call", "call_id": "c2", "name": "g", "arguments": '{"a":1}'},
        OUTPUT,
        {"type": "function_call_output", "call_id": "c2", "output": ""},
    ]


def test_a_result_that_is_not_text_is_a_list_of_parts() -> None:
    [output] = request(answering("c1", [{"kind": "image", "source": "https://x/y.png"}]))["input"]
    assert output["output"] == [{"type": "input_image", "image_url": "https://x/y.png"}]


def test_a_rewritten_text_wins_and_the_reasoning_stays_with_its_call() -> None:
    calls = [ToolCall(id="c1", name="f", arguments="{}")]
    tool_round = format_tool_messages(agent(RESPONSES), RESPONSE, calls, ["72"], text="Redacted.")
    assert request(*tool_round)["input"] == [
        {"role": "assistant", "content": "Redacted."},
        REASONING,
        CALL,
        OUTPUT,
    ]


def test_edited_calls_win_over_the_original_items() -> None:
    calls = [ToolCall(id="c1", name="f", arguments='{"safe":true}')]
    tool_round = format_tool_messages(agent(RESPONSES), RESPONSE, calls, ["72"])
    assert request(*tool_round)["input"][:2] == [
        {"role": "assistant", "content": "Looking."},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"safe":true}'},
    ]


def test_outputs_are_a_text_format_beside_other_settings_of_text() -> None:
    options = {"additionalProperties": {"text": {"verbosity": "low", "format": "mine"}}}
    text = request(outputs=[{"name": "a"}], options=options)["text"]
    assert text["verbosity"] == "low"
    assert text["format"] == {
        "type": "json_schema",
        "name": "structured_output",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"a": {"type": ["string", "null"]}},
            "required": ["a"],
            "additionalProperties": False,
        },
    }
