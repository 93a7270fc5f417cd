"""Octopus's chat, asked as its widget asks."""

from __future__ import annotations

import json

import httpx2

from perdure.json_types import JsonObject
from perdure.testing import asks, call, says

from ..support.agents import Scripted, scripted_agent
from .conftest import Serve


async def send(
    http: httpx2.AsyncClient, session: str, body: JsonObject
) -> list[tuple[str, JsonObject]]:
    """Say something, and return the events of the turn."""
    answer = await http.post(f"/api/chat/{session}/send", json=body, timeout=60)
    assert answer.headers["content-type"].startswith("text/event-stream"), answer.text
    events = [
        each.splitlines()
        for each in answer.text.split("\n\n")
        if each.strip() and not each.startswith(":")
    ]
    return [
        (name.removeprefix("event: "), json.loads(data.removeprefix("data: ")))
        for name, data in events
    ]


def whole(events: list[tuple[str, JsonObject]]) -> str:
    return "".join(data["text"] for name, data in events if name == "token")


async def test_each_message_is_a_turn_of_its_session(
    scripted: Scripted, serve_agents: Serve
) -> None:
    model = scripted([asks(call("look", "tc-1")), says("15 days. " * 60), says("Yes.")])
    agent = scripted_agent(model, ["look"], name="hr-assistant", metadata={"octopus": {}})
    async with (
        serve_agents(agent, tools={"look": lambda text="": "15"}) as served,
        httpx2.AsyncClient(base_url=served.url) as http,
    ):
        session = served.gateway.task_queue
        first = await send(http, session, {"message": "How many?", "messageId": "m-1"})
        names = [name for name, _ in first]
        assert names[:3] == ["turn_start", "tool_call", "tool_result"]
        assert names[-1] == "turn_end"
        assert names.count("turn_end") == 1
        assert whole(first) == "15 days. " * 60
        assert first[0][1] == {"turn_id": f"{session}/1", "agent_id": "hr-assistant"}
        again = await send(http, session, {"Message": "How many?", "MessageId": "m-1"})
        assert (whole(again), again[-1]) == (whole(first), first[-1]), "counts once"
        second = await send(http, session, {"message": "Sure?"})
        assert second[0][1]["turn_id"] == f"{session}/2"
        empty = await http.post(f"/api/chat/{session}/send", json={"message": ""})
        assert empty.status_code == 422


async def test_a_turn_that_fails_says_so_and_ends_once(
    scripted: Scripted, serve_agents: Serve
) -> None:
    model = scripted([asks(call("look"))] * 3)
    settings = {"metadata": {"perdure": {"maxIterations": 1, "onFailure": "fail"}}}
    agents = [scripted_agent(model, ["look"], name=name, **settings) for name in ("one", "two")]
    async with (
        serve_agents(*agents, tools={"look": lambda text="": "x"}) as served,
        httpx2.AsyncClient(base_url=served.url) as http,
    ):
        session = served.gateway.task_queue
        unnamed = await http.post(f"/api/chat/{session}/send", json={"message": "Hi"})
        assert unnamed.status_code == 404, "which of the two is asked?"
        events = await send(http, session, {"message": "Hi", "agentId": "two"})
        assert [name for name, _ in events][-2:] == ["error", "turn_end"]
        assert events[-2][1]["kind"] == "max_iterations"
