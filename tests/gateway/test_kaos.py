"""Agents as KAOS's programs ask them: health, memory, a peer's task, chat completions with
progress.
"""

from __future__ import annotations

import json

import httpx2
import openai

from perdure.json_types import JsonObject
from perdure.testing import says

from ..support.agents import Scripted, scripted_agent
from .conftest import Serve

ACTION = '{"tool": "echo", "arguments": {"text": "hello"}}'


def echo(text: str = "") -> str:
    return text


async def test_chat_completions_show_progress_and_memory_has_what_was_said(
    scripted: Scripted, serve_agents: Serve
) -> None:
    left = [ACTION, "{}", "The echo returned: hello"]
    model = scripted(lambda request: says(left.pop(0)))
    agent = scripted_agent(model, ["echo"], name="assistant", metadata={"kaos": {}})
    async with serve_agents(agent, tools={"echo": echo}) as served:
        base, session = f"{served.url}/kaos/assistant", served.gateway.task_queue
        async with openai.AsyncOpenAI(base_url=f"{base}/v1", api_key="any") as client:
            stream = await client.chat.completions.create(
                model="whatever",
                messages=[{"role": "user", "content": "Say hello"}],
                stream=True,
                extra_headers={"X-Session-ID": session},
            )
            said = [each.choices[0].delta.content or "" async for each in stream]
        assert json.loads(said[1]) == {
            "type": "progress",
            "step": 1,
            "max_steps": 5,
            "action": "tool_call",
            "target": "echo",
        }
        assert "".join(said[2:]) == "The echo returned: hello"
        async with httpx2.AsyncClient(base_url=served.url) as http:
            told = (await http.get("/memory/events", params={"session_id": session})).json()
            types = ["user_message", "tool_call", "tool_result", "agent_response"]
            assert [each["event_type"] for each in told["events"]] == types
            assert (told["agent"], told["total"]) == ("assistant", 4)
            assert (
                await http.get("/memory/events", params={"session_id": session, "limit": 1})
            ).json()["total"] == 1
            assert session in (await http.get(f"{base}/memory/sessions")).json()["sessions"]
            assert (await http.get("/memory/events")).json()["total"] >= 4
            assert (await http.get("/health")).json()["status"] == "healthy"
            assert (await http.get("/ready")).json()["name"] == "assistant"


async def test_a_peer_hands_over_a_task(scripted: Scripted, serve_agents: Serve) -> None:
    agent = scripted_agent(scripted([says("Found.")]), name="researcher")
    async with (
        serve_agents(agent) as served,
        httpx2.AsyncClient(base_url=f"{served.url}/kaos/researcher") as http,
    ):
        card = (await http.get("/.well-known/agent")).json()
        assert (card["url"], card["capabilities"][0]) == (
            f"{served.url}/kaos/researcher",
            "message_processing",
        )
        task = {"role": "task-delegation", "content": "Find it."}
        body = {
            "model": "researcher",
            "messages": [{"role": "user", "content": "Hi"}, task],
            "stream": False,
        }
        answer = await http.post("/v1/chat/completions", json=body, timeout=30)
        assert answer.json()["choices"][0]["message"]["content"] == "Found."
        run = {"session_id": answer.headers["x-perdure-run"]}
        events: list[JsonObject] = (await http.get("/memory/events", params=run)).json()["events"]
        told = [(each["event_type"], each["content"]) for each in events]
        assert told[-2:] == [("task_delegation_received", "Find it."), ("agent_response", "Found.")]
        for messages, detail in (
            ([], "messages are required"),
            ([{"role": "system", "content": "x"}], "No user or task-delegation message found"),
        ):
            refused = await http.post("/v1/chat/completions", json={"messages": messages})
            assert (refused.status_code, refused.json()["detail"]) == (400, detail)
        assert (await http.get("/memory/events", params={"limit": "-1"})).status_code == 422
        assert (await http.get("/memory/events", params={"session_id": "none"})).status_code == 404
