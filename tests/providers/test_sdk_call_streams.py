"""§8: streamed events put together to the response that the call without streaming gives."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from perdure.errors import ModelError
from perdure.json_types import JsonObject
from perdure.providers import Delta, provider_for
from perdure.providers.sdk_call import EventDecoder
from perdure.providers.wire_format import WireFormat

from ..support.stream_outcome import process_stream
from ..support.wire_agents import ANTHROPIC, APIS, CHAT, RESPONSES, agent
from .conftest import recording
from .test_wire_format_process import NAMES

Api = tuple[str, str]
END = "[DONE]"


def events(api: Api, name: str) -> list[JsonObject]:
    decoded = EventDecoder().feed(recording(f"{NAMES[api]}_{name}.sse"))
    return [json.loads(data) for data in decoded if data != END]


def assembled(api: Api, given_events: list[JsonObject]) -> tuple[JsonObject, list[Delta]]:
    provider = provider_for(agent(api))
    assert isinstance(provider, WireFormat)
    assembler = provider.assembler()
    deltas = [delta for event in given_events for delta in assembler.add(event)]
    assert assembler.is_complete
    return assembler.response(), deltas


@pytest.mark.parametrize("api", APIS)
def test_text_and_thinking(api: Api) -> None:
    response, deltas = assembled(api, events(api, "text"))
    assert deltas == [
        Delta("thinking", "Look it up."),
        Delta("text", "It is "),
        Delta("text", "72°F."),
    ]
    reply = provider_for(agent(api)).reply(agent(api), response)
    assert reply.message.text == "It is 72°F."
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.total_tokens) == (
        9,
        5,
        14,
    )
    assert reply.finish_reason in ("stop", "completed", "end_turn")
    assert reply.warnings == []


def test_anthropic_citations_and_unknown_deltas() -> None:
    first, *middle, _, last = events(ANTHROPIC, "text")
    cited = {
        "type": "content_block_delta",
        "index": 1,
        "delta": {"type": "citations_delta", "citation": {"n": 1}},
    }
    novel = {"type": "content_block_delta", "index": 1, "delta": {"type": "novel_delta"}}
    response, _ = assembled(
        ANTHROPIC, [first, *middle, cited, novel, {"type": "novel_event"}, last]
    )
    assert response["content"][1] == {
        "type": "text",
        "text": "It is 72°F.",
        "citations": [{"n": 1}],
    }


def test_responses_without_a_final_list_of_items() -> None:
    text, *_ = assembled(
        RESPONSES, [{"type": "response.output_text.delta", "delta": "Hi"}, {"type": "x"}, done()]
    )
    assert provider_for(agent(RESPONSES)).process(agent(RESPONSES), text) == "Hi"


def done(**response: Any) -> JsonObject:
    return {
        "type": "response.completed",
        "response": {"id": "r", "status": "completed", **response},
    }


def chunk(*calls: JsonObject, finish_reason: str | None = None) -> JsonObject:
    return {
        "choices": [
            {"index": 0, "delta": {"tool_calls": list(calls)}, "finish_reason": finish_reason}
        ]
    }


@pytest.mark.parametrize("indices", [(0, 0), (None, None), (0, 1)])
def test_chat_servers_that_number_calls_in_their_own_way(
    indices: tuple[int | None, int | None],
) -> None:
    first, second = (
        {"index": index, "id": id_, "function": {"name": name, "arguments": "{}"}}
        for index, id_, name in zip(indices, "ab", "fg", strict=True)
    )
    response, _ = assembled(CHAT, [chunk(first), chunk(second), chunk(finish_reason="tool_calls")])
    calls = provider_for(agent(CHAT)).process(agent(CHAT), response)
    assert [(call.id, call.name, call.arguments) for call in calls] == [
        ("a", "f", "{}"),
        ("b", "g", "{}"),
    ]


@pytest.mark.parametrize(
    ("api", "event", "kind", "message"),
    [
        (CHAT, {"error": {"message": "Busy", "code": "rate_limit_exceeded"}}, "rate_limit", "Busy"),
        (CHAT, {"error": {"message": "Broke", "type": "novel"}}, "server", "Broke"),
        (
            RESPONSES,
            {"type": "error", "code": "server_error", "message": "Broke"},
            "server",
            "Broke",
        ),
        (
            RESPONSES,
            {
                "type": "response.failed",
                "response": {"error": {"code": "rate_limit_exceeded", "message": "Busy"}},
            },
            "rate_limit",
            "Busy",
        ),
        (
            ANTHROPIC,
            {"type": "error", "error": {"type": "overloaded_error", "message": "Full"}},
            "overloaded",
            "Full",
        ),
    ],
)
def test_an_error_event_is_a_typed_error(
    api: Api, event: JsonObject, kind: str, message: str
) -> None:
    with pytest.raises(ModelError) as caught:
        assembled(api, [event])
    assert (caught.value.kind, caught.value.message) == (kind, message)


TEXT = {"kind": "provider", "value": {"choices": [{"delta": {"content": "It is "}}]}}
LOST = {"kind": "transport_error", "message": "connection reset"}
REFUSED = {"kind": "provider", "value": {"choices": [{"delta": {"refusal": "I cannot"}}]}}


def test_a_lost_stream_is_indeterminate() -> None:
    assert process_stream([TEXT, LOST, TEXT]) == {
        "chunks": [
            {"kind": "text", "value": "It is "},
            {
                "kind": "failure",
                "failure": {"outcome": "indeterminate", "message": "connection reset"},
            },
        ],
        "partialText": "It is ",
        "requiresReconciliation": True,
        "completionCommitted": False,
    }


def test_a_refusal_ends_the_stream_at_once() -> None:
    outcome = process_stream([TEXT, REFUSED, TEXT])
    assert [chunk["kind"] for chunk in outcome["chunks"]] == ["text", "failure"]
    assert (outcome["requiresReconciliation"], outcome["completionCommitted"]) == (False, False)


@given(st.lists(st.integers(min_value=1, max_value=70)), st.sampled_from([b"\n", b"\r\n", b"\r"]))
@example([63], b"\r")
@settings(deadline=None)
def test_events_do_not_depend_on_how_the_network_cuts_them(
    cuts: list[int], line_end: bytes
) -> None:
    stream = b"data: a\ndata: b\n\n: note\nevent: x\ndata:\xc3\xa9\n\nid: 3\n\ndata: [DONE]\n\nx".replace(
        b"\n", line_end
    )
    decoder = EventDecoder()
    found: list[str] = []
    start = 0
    for cut in [*cuts, len(stream)]:
        found += decoder.feed(stream[start : start + cut])
        start += cut
    assert found == ["a\nb", "é", "[DONE]"]
