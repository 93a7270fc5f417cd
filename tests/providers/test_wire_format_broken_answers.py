"""Answers that a broken server might give: nothing but the documented errors comes of them."""

from __future__ import annotations

import pytest

from perdure.json_types import JsonObject
from perdure.providers import provider_for

from ..support.wire_agents import ANTHROPIC, CHAT, RESPONSES, agent

Api = tuple[str, str]


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
def test_what_is_unusual_but_clear(api: Api, response: JsonObject, text: str) -> None:
    assert provider_for(agent(api)).process(agent(api), response) == text
