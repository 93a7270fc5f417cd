"""How a reply ended: the same verdict on each API, whole and streamed."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from perdure.errors import ModelError, ModelErrorKind
from perdure.json_types import JsonObject
from perdure.loop.failed_calls import AFTER
from perdure.messages import FILTERED, ModelReply, Usage
from perdure.providers.ends import Answer, require_reply, verdict
from perdure.providers.error_words import table
from perdure.providers.registry import provider_for

from ..support.wire_agents import ANTHROPIC, APIS, CHAT, RESPONSES, agent

Api = tuple[str, str]
Json = JsonObject
CALLS = [("a", "look", '{"at": {"page": 1}}'), ("b", "look", '{"at": {"page": 2}}')]
EARLY = {CHAT: "length", RESPONSES: "max_output_tokens", ANTHROPIC: "max_tokens"}


def whole(
    api: Api, word: str, text: str = "", calls: Any = (), *, status: str = "completed"
) -> Json:
    """A response that is not streamed, and ends with this word."""
    if api == CHAT:
        asked = [
            {"id": id, "function": {"name": name, "arguments": arguments}}
            for id, name, arguments in calls
        ]
        return {
            "choices": [{"message": {"content": text, "tool_calls": asked}, "finish_reason": word}]
        }
    if api == ANTHROPIC:
        used = [
            {"type": "tool_use", "id": id, "name": name, "input": arguments}
            for id, name, arguments in calls
        ]
        return {
            "content": [{"type": "text", "text": text}] * bool(text) + used,
            "stop_reason": word,
        }
    said = [{"type": "message", "content": [{"type": "output_text", "text": text}]}] * bool(text)
    asked = [
        {
            "type": "function_call",
            "call_id": id,
            "name": name,
            "arguments": arguments,
            "status": status,
        }
        for id, name, arguments in calls
    ]
    return {
        "status": "incomplete",
        "incomplete_details": {"reason": word},
        "output": [*said, *asked],
    }


def read(api: Api, response: Json) -> ModelReply:
    given = agent(api)
    return provider_for(given).reply(given, response)


def kind_of(api: Api, response: Json) -> str:
    with pytest.raises(ModelError) as caught:
        read(api, response)
    return caught.value.kind


@pytest.mark.parametrize("api", APIS)
def test_words_that_cut_an_answer_short(api: Api) -> None:
    for word in [*table()["ends"]["cut_short"], *FILTERED, *map(str.upper, FILTERED)]:
        reply = read(api, whole(api, word, "It is"))
        assert (reply.ended, reply.message.text) == ("cut_short", "It is"), word
        assert reply.cut_short == ("content_filter" if word.lower() in FILTERED else "length")


@pytest.mark.parametrize("api", APIS)
def test_words_of_refusals_and_faults(api: Api) -> None:
    assert {
        kind_of(api, whole(api, word))
        for word in [*table()["ends"]["refused"], *FILTERED, "SAFETY"]
    } == {"refusal"}
    assert kind_of(api, whole(api, "refusal", "Well,")) == "refusal"
    assert {kind_of(api, whole(api, word, "It is")) for word in table()["ends"]["broken"]} == {
        "invalid_response"
    }


def test_words_that_end_a_whole_reply() -> None:
    for word in (
        "stop",
        "tool_calls",
        "function_call",
        "stop_sequence",
        "eos",
        "never heard of",
        "",
        None,
        7,
        ["x"],
    ):
        assert read(CHAT, whole(CHAT, word, "It is")).ended == "whole"  # type: ignore[arg-type]


def test_a_paused_turn_is_kept_to_be_sent_back() -> None:
    block = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "bees"}}
    reply = read(ANTHROPIC, {"content": [block], "stop_reason": "pause_turn"})
    assert reply.ended == "paused"
    assert reply.message.metadata["provider_content"]["content"] == [block]
    assert kind_of(ANTHROPIC, {"content": [], "stop_reason": "pause_turn"}) == "empty"


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    "left",
    ["", "{}", '{"at": {"page": 2}', '{"at": {"page": 2}},', '```json\n{"at": 2}\n```', "[1]"],
)
def test_a_call_that_was_cut_off_has_a_fault(api: Api, left: str) -> None:
    response = whole(api, EARLY[api], "", [CALLS[0], ("b", "look", left)])
    response["usage"] = {"output_tokens": 4096, "completion_tokens": 4096}
    first, second = read(api, response).message.tool_calls
    assert first.fault is None
    assert second.fault is not None
    assert second.fault.startswith(
        "Error: This call was not made: the reply was cut off at 4,096 tokens (finish reason"
    )
    assert "write less in one call" in second.fault
    assert [call.fault for call in read(api, whole(api, "stop", "", CALLS)).message.tool_calls] == [
        None,
        None,
    ]


def test_the_last_call_of_a_reply_that_was_cut_short_counts_where_the_api_closes_it() -> None:
    def faults(api: Api, calls: Any = CALLS, **more: Any) -> list[bool]:
        return [
            bool(call.fault)
            for call in read(api, whole(api, EARLY[api], "", calls, **more)).message.tool_calls
        ]

    assert faults(CHAT) == faults(RESPONSES) == [False, False]
    assert faults(RESPONSES, status="incomplete") == [True, True]
    objects = [(id, name, {"at": {"page": 1}}) for id, name, _ in CALLS]
    assert faults(CHAT, objects) == faults(ANTHROPIC, objects) == [False, True], (
        "an object may have been closed by them"
    )


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("name", [None, "", " ", 7, [], {}])
def test_a_call_without_a_name_can_t_be_made(api: Api, name: Any) -> None:
    (call,) = read(api, whole(api, "stop", "", [("a", name, "{}")])).message.tool_calls
    assert call.name == ""
    assert call.fault == "Error: The call names no tool. Call the tool again, by its name"


def test_each_kind_of_failure_has_a_row() -> None:

    assert set(AFTER) == set(get_args(ModelErrorKind))


def test_an_error_inside_an_answer_outweighs_its_text_and_its_end() -> None:
    assert verdict(Answer("It is", [], Usage(), "stop")) == "whole"
    answer = Answer("It is", [], Usage(input_tokens=7), "stop", error={"message": "overloaded"})
    assert verdict(answer) == "broken"
    with pytest.raises(ModelError) as caught:
        require_reply(answer, "openai")
    assert caught.value.usage.input_tokens == 7, "the call is paid all the same"
