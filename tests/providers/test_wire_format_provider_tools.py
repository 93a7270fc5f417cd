"""Tools that the provider executes itself: declared as it wants them, told of, and kept in the
conversation.
"""

from __future__ import annotations

from typing import Any

import pytest

from perdure.agents import Agent
from perdure.json_types import JsonObject
from perdure.providers import to_request
from perdure.testing import ScriptedModel, ScriptedReply, asks, call, says

from ..support.agents import scripted_agent
from ..support.stage import Stage
from ..support.wire_agents import ANTHROPIC, CHAT, RESPONSES, agent, message

SEARCH = {"type": "web_search", "search_context_size": "low"}
FUNCTION = {"name": "f", "kind": "function"}
DECLARED = {
    "name": "web_search",
    "kind": "provider",
    "options": {"type": "web_search_20250305", "max_uses": 3},
}


def tools_of(calling: Agent, **more: Any) -> list[JsonObject]:
    tools: list[JsonObject] = to_request(calling, [message("user", "Hi")], **more).get("tools", [])
    return tools


@pytest.mark.parametrize("api", [CHAT, RESPONSES, ANTHROPIC])
@pytest.mark.parametrize("functions", [[], [FUNCTION]])
def test_those_of_the_options_are_beside_functions(
    api: tuple[str, str], functions: list[JsonObject]
) -> None:
    """Before, one function was enough to drop them."""
    calling = agent(api, options={"additionalProperties": {"tools": [SEARCH]}}, tools=functions)
    assert tools_of(calling)[len(functions) :] == [SEARCH]
    assert len(tools_of(calling)) == len(functions) + 1


@pytest.mark.parametrize(
    ("api", "sent"),
    [
        (RESPONSES, {"type": "web_search_20250305", "max_uses": 3}),
        (ANTHROPIC, {"name": "web_search", "type": "web_search_20250305", "max_uses": 3}),
    ],
)
def test_a_declaration_is_sent_as_it_is(api: tuple[str, str], sent: JsonObject) -> None:
    [function, declared] = tools_of(agent(api, tools=[FUNCTION, DECLARED]))
    assert (declared, function["name"]) == (sent, "f")
    short = {"name": "web_search", "kind": "provider"}
    assert tools_of(agent(api, tools=[short]))[0]["type"] == "web_search"


def test_without_tools_a_provider_acts_neither() -> None:
    assert tools_of(agent(RESPONSES, tools=[FUNCTION, DECLARED]), may_call_tools=False) == []
    sent = to_request(
        agent(ANTHROPIC, tools=[FUNCTION, DECLARED]), [message("user", "Hi")], may_call_tools=False
    )
    assert sent["tool_choice"] == {"type": "none"}


ITEMS: dict[str, list[JsonObject]] = {
    "openai-responses": [
        {
            "type": "web_search_call",
            "id": "ws_1",
            "status": "completed",
            "action": {"type": "search", "query": "weather"},
        }
    ],
    "anthropic": [
        {
            "type": "server_tool_use",
            "id": "srvtoolu_1",
            "name": "web_search",
            "input": {"query": "weather"},
        },
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": [
                {
                    "type": "web_search_result",
                    "url": "https://e.com",
                    "title": "E",
                    "encrypted_content": "x",
                }
            ],
        },
    ],
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("wire", ITEMS)
async def test_what_it_did_is_told_and_goes_back(stage: Stage, wire: str, stream: bool) -> None:
    first = asks(call("f", "c1")).model_copy(
        update={"provider_items": ITEMS[wire], "text": "Looking."}
    )
    with ScriptedModel([first, says("Sunny.")]) as model:
        async with stage.worker({"f": lambda: "ok"}):
            run = await stage.start(
                scripted_agent(model, [FUNCTION, DECLARED], wire=wire), stream=stream
            )
            assert (await run.result()).output == "Sunny."
        sent = model.requests[1].body
        assert {tool.get("type") for tool in sent["tools"]} >= {"web_search_20250305"}
        kept = sent["input"] if wire == "openai-responses" else sent["messages"][-2]["content"]
        assert [each for each in kept if each in ITEMS[wire]] == ITEMS[wire]
    [told] = [event.data for event in await run.events() if event.type == "provider_tool"]
    assert (told["name"], told["id"], told["status"]) == (
        "web_search",
        ITEMS[wire][0]["id"],
        "completed",
    )
    assert "weather" in str(told["details"])
    assert "encrypted" not in str(told["details"])
    chats = [span for span in await run.trace() if span.name.startswith("chat")]
    assert [dict(span.attributes or {}).get("perdure.provider_tools") for span in chats] == [
        ("web_search",),
        None,
    ]


async def test_a_search_that_failed(stage: Stage) -> None:
    failure = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    items = [ITEMS["anthropic"][0], {**ITEMS["anthropic"][1], "content": failure}]
    with ScriptedModel([ScriptedReply(text="No luck.", provider_items=items)]) as model:
        async with stage.worker({}):
            run = await stage.start(scripted_agent(model, [DECLARED], wire="anthropic"))
            await run.result()
    [told] = [event.data for event in await run.events() if event.type == "provider_tool"]
    assert (told["status"], told["details"]["error"]) == ("failed", "max_uses_exceeded")
