"""Remote agents to which a run delegates (`metadata.perdure.agents`), on a real server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure.agents import Agent
from perdure.client import start_run
from perdure.json_types import JsonObject
from perdure.messages import Message
from perdure.settings.child_agents import DELEGATE
from perdure.testing import InProcessRun, ScriptedModel, asks, call, says

from ..support.a2a_agents import RemoteAgent, served
from ..support.agents import Scripted, scripted_agent, tool_texts
from ..support.families import write_agent
from ..support.peers import KAOS_CARD, Peer
from ..support.recorded import everything_recorded
from ..support.stage import Stage
from ..support.unknown_outcomes import NEEDS_APPROVAL

KEY = "the-very-secret-key-of-the-office"
VAULTED = "the-key-that-only-the-vault-has"


def chief(model: ScriptedModel, *agents: JsonObject, **perdure: Any) -> Agent:
    return scripted_agent(model, metadata={"perdure": {"agents": list(agents), **perdure}})


def delegating(*tasks: tuple[str, str]) -> list[Any]:
    """A model that hands these tasks to agents, by their names, one after the other."""
    return [*(asks(call(f"{DELEGATE}{name}", task=task)) for name, task in tasks), says("done")]


async def test_a_run_delegates_to_agents_of_kaos_and_of_a2a(
    stage: Stage, scripted: Scripted, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OFFICE_KEY", KEY)
    peer, office = Peer(KAOS_CARD), RemoteAgent(key=KEY)
    model = scripted(
        delegating(
            ("researcher", f"say {KEY}"), ("office", "echo rain"), ("researcher", "status 500")
        )
    )
    async with served(peer) as at, office.served() as url, stage.worker(credentials={7: VAULTED}):
        keys = {"headers": {"X-Office": "${env:OFFICE_KEY}"}, "apiKey": "${credential:7}"}
        agents = [
            {"name": "researcher", "url": at, "context": 3, **keys},
            {
                "name": "office",
                "url": url,
                "apiKey": "${env:OFFICE_KEY}",
                "description": "The office.",
            },
            {"name": "gone", "url": "http://127.0.0.1:9", "description": "Nobody is there."},
        ]
        file = write_agent(
            tmp_path, "chief.prompty", model, metadata={"perdure": {"agents": agents}}
        )
        conversation = [Message.system("Be brief."), Message.user("What is it?")]
        run = await start_run(
            stage.client, file, messages=conversation, task_queue=stage.task_queue
        )
        stage.runs.append(run)
        result = await run.result()
        events = await run.events()
        recorded = b"".join(await everything_recorded(stage.client, run.id)).decode(
            errors="replace"
        )
    assert tool_texts(result.messages) == [
        "${env:OFFICE_KEY}",
        "rain",
        '[Delegation failed: HTTP status 500: {"detail":"not now"}]' + NEEDS_APPROVAL,
    ]
    assert [tool["function"]["name"] for tool in model.requests[0].body["tools"]] == [
        "delegate_to_researcher",
        "delegate_to_office",
    ]
    [why] = [event.data["message"] for event in events if event.type == "status"]
    assert why.startswith(
        "The model is not offered delegate_to_gone: the card of the agent at http://127.0.0.1:9"
    )
    assert [headers["x-office"] for headers in peer.headers] == [KEY, KEY]
    assert {headers["authorization"] for headers in peer.headers} == {f"Bearer {VAULTED}"}
    assert [message["role"] for message in peer.bodies[0]["messages"]] == [
        "user",
        "task-delegation",
    ]
    assert [(each["role"], each["content"][:44]) for each in peer.bodies[1]["messages"]] == [
        ("user", "Tool result:\n${env:OFFICE_KEY}"),
        ("assistant", '{"agent": "office", "task": "echo rain"}'),
        ("user", "Tool result:\nrain"),
        ("task-delegation", "status 500"),
    ]
    assert len({headers["traceparent"].split("-")[1] for headers in peer.headers}) == 1
    assert "${credential:7}" in recorded
    beside_the_model = recorded.replace(f"say {KEY}", "")
    assert not any(key in beside_the_model for key in (KEY, VAULTED))
    await stage.replay()


async def test_an_agent_here_is_told_what_was_said_before(tmp_path: Path) -> None:
    agents = [{"name": "clerk", "path": "clerk.prompty", "context": 2}]
    file = write_agent(tmp_path, "chief.prompty", metadata={"perdure": {"agents": agents}})
    write_agent(tmp_path, "clerk.prompty")
    asked: list[list[Message]] = []

    def model(agent: Agent, messages: list[Message]) -> Any:
        if agent.name == "clerk":
            asked.append(list(messages))
            return says("3")
        is_answered = messages[-1].role == "tool"
        return says("Three.") if is_answered else asks(call("delegate_to_clerk", task="Count."))

    said = [
        Message.system("Be brief."),
        Message.user("Ships?"),
        Message.assistant("Yes."),
        Message.user("How many?"),
    ]
    assert (await InProcessRun(file, said, model=model).run()).output == "Three."
    assert [(each.role, each.text) for each in asked[0]] == [
        ("system", "You are clerk."),
        ("assistant", "Yes."),
        ("user", "How many?"),
        ("user", "Count."),
    ]
