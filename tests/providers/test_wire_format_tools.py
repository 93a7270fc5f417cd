"""§7.1, §9.6: which tools the model is offered, in each wire format."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.json_types import JsonObject
from perdure.providers import to_request

from ..support.wire_agents import ANTHROPIC, APIS, CHAT, agent

Api = tuple[str, str]


def offered(api: Api, tools: list[JsonObject], **more: Any) -> JsonObject:
    """Name → parameter schema, as the request has them."""
    sent = to_request(agent(api, tools=tools), [], **more).get("tools", [])
    functions = [tool.get("function", tool) for tool in sent]
    return {
        function["name"]: function.get("parameters", function.get("input_schema"))
        for function in functions
    }


EMPTY = {"type": "object", "properties": {}}
CITY: JsonObject = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}


@pytest.mark.parametrize("api", APIS)
def test_prompty_and_custom_tools_are_functions_when_they_declare_parameters(api: Api) -> None:
    parameters = [{"name": "city", "required": True}]
    tools: list[JsonObject] = [
        {"kind": "prompty", "name": "p", "path": "x.prompty", "parameters": parameters},
        {"kind": "prompty", "name": "q", "path": "x.prompty"},
        {"kind": "my_kind", "name": "c", "parameters": parameters},
        {"kind": "my_kind", "name": "d"},
        {"kind": "mcp", "name": "m"},
        {"kind": "openapi", "name": "o"},
    ]
    assert offered(api, tools) == {"p": CITY, "c": CITY}


@pytest.mark.parametrize("api", APIS)
def test_tools_known_elsewhere_are_added_once(api: Api) -> None:
    declared = {"kind": "function", "name": "f"}
    extra: list[JsonObject] = [
        {"name": "search", "description": "S", "parameters": CITY},
        {"name": "f", "parameters": CITY},
        {"name": "g"},
    ]
    assert offered(api, [declared], extra_tools=extra) == {"f": EMPTY, "search": CITY, "g": EMPTY}


def test_bindings_of_a_tool_whose_parameters_are_known_elsewhere() -> None:
    tool = {
        "kind": "prompty",
        "name": "p",
        "path": "x.prompty",
        "bindings": {"unit": {"input": "u"}},
    }
    both = {
        "type": "object",
        "properties": {**CITY["properties"], "unit": {}},
        "required": ["unit", "city"],
    }
    assert offered(CHAT, [tool], extra_tools=[{"name": "p", "parameters": both}]) == {"p": CITY}


def test_anthropic_declares_the_tools_that_the_conversation_may_mention() -> None:
    tools = [{"kind": "function", "name": "f"}]
    request = to_request(agent(ANTHROPIC, tools=tools), [], may_call_tools=False)
    assert len(request["tools"]) == 1
    assert request["tool_choice"] == {"type": "none"}
    assert "tool_choice" not in to_request(agent(ANTHROPIC), [], may_call_tools=False)
