"""Answers that a broken server might give: nothing but the documented errors comes of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.errors import ModelError
from perdure.providers import provider_for
from perdure.providers.wire_format import WireFormat

from ..support.wire_agents import ANTHROPIC, APIS, CHAT, RESPONSES, agent
from .conftest import recording
from .test_sdk_call_streams import events
from .test_wire_format_process import NAMES

Api = tuple[str, str]
JUNK = st.sampled_from(
    [
        None,
        True,
        3,
        -1.5,
        "text",
        "",
        [],
        [None],
        ["x"],
        {},
        {"type": "text"},
        [{"type": "tool_use"}],
    ]
)


def places(value: Any) -> list[list[Any]]:
    """The paths to everything in a JSON value."""
    inner = list(
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else []
    )
    return [[]] + [[key, *rest] for key, item in inner for rest in places(item)]


def replaced(value: Any, path: list[Any], junk: Any) -> Any:
    if not path:
        return junk
    copy = value.copy()
    copy[path[0]] = replaced(value[path[0]], path[1:], junk)
    return copy


@st.composite
def damaged(draw: st.DrawFn, value: Any) -> Any:
    for _ in range(draw(st.integers(1, 3))):
        value = replaced(value, draw(st.sampled_from(places(value)[1:] or [[]])), draw(JUNK))
    return value


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_damaged_responses(data: st.DataObject) -> None:
    api = data.draw(st.sampled_from(APIS))
    whole = json.loads(
        recording(f"{NAMES[api]}_{data.draw(st.sampled_from(['text', 'tools']))}.json")
    )
    response = data.draw(damaged(whole))
    provider, declaring = provider_for(agent(api)), agent(api, outputs=[{"name": "a"}])
    try:
        provider.process(declaring, response)
        reply = provider.reply(declaring, response)
    except (ValueError, ModelError):
        return
    json.loads(reply.model_dump_json())
    for other in APIS:
        provider_for(agent(other)).to_request(agent(other), [reply.message])


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_damaged_streams(data: st.DataObject) -> None:
    api = data.draw(st.sampled_from(APIS))
    whole = events(api, data.draw(st.sampled_from(["text", "tools"])))
    number = data.draw(st.integers(0, len(whole) - 1))
    event = data.draw(damaged(whole[number]))
    provider = provider_for(agent(api))
    assert isinstance(provider, WireFormat)
    assembler = provider.assembler()
    try:
        for sent in [*whole[:number], event, *whole[number + 1 :]]:
            assembler.add(sent)
        provider.reply(agent(api), assembler.response())
    except (LookupError, TypeError, AttributeError, ValueError, ModelError):
        return  # what a call turns into one ModelError


@pytest.mark.parametrize(
    ("api", "response", "text"),
    [
        (
            CHAT,
            {"choices": [{"message": {"content": [{"type": "text", "text": "a"}, {"type": "x"}]}}]},
            "a",
        ),
        (
            RESPONSES,
            {"output": [{"type": "web_search_call"}, {"type": "message", "content": None}]},
            "",
        ),
        (ANTHROPIC, {"content": [{"type": "server_tool_use"}, {"type": "text", "text": "a"}]}, "a"),
    ],
)
def test_what_is_unusual_but_clear(api: Api, response: dict[str, Any], text: str) -> None:
    assert provider_for(agent(api)).process(agent(api), response) == text
