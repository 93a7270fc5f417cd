"""Remote agents as tools, called as a worker does: what is offered of them, what they are told,
what they answer.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from perdure import load_dict
from perdure.agents import Agent
from perdure.json_types import JsonObject
from perdure.messages import Message, ToolResult
from perdure.settings.delegates import with_delegates
from perdure.tools.context import ToolContext
from perdure.tools.kind import Asking, KindCall, Offering, ToolUnavailable
from perdure.tools.remote.kind import DelegateKind
from tests.support.a2a_agents import RemoteAgent, served
from tests.support.peers import KAOS_CARD, KAOS_TASKS_CARD, Peer, completion

BEFORE = [Message.user("What floats?"), Message.assistant("Wood.")]


@pytest.fixture
async def kind() -> AsyncIterator[DelegateKind]:
    kind = DelegateKind()
    yield kind
    await kind.close()


def chief(url: str, **entry: Any) -> Agent:
    """An agent that delegates to the one at `url`."""
    return with_agents({"name": "researcher", "url": url, **entry})


def with_agents(*entries: JsonObject) -> Agent:
    metadata = {"perdure": {"agents": list(entries)}}
    return with_delegates(load_dict({"name": "chief", "model": {"id": "m"}, "metadata": metadata}))


async def offered(kind: DelegateKind, agent: Agent) -> Offering:
    [tool] = agent.tools or []
    [offering] = await kind.offer(tool, Asking(agent, {}))
    return offering


async def told(
    kind: DelegateKind, agent: Agent, task: str, *, before: list[Message] | None = None
) -> ToolResult:
    """The result of one task."""
    [tool] = agent.tools or []
    offering = await offered(kind, agent)
    context = ToolContext(
        run_id="run",
        call_id="call",
        idempotency_key="run/1/0",
        conversation=before or [],
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    )
    return await kind.execute(
        KindCall(tool, offering.name, offering.details, {"task": task}, agent, {}, context)
    )


@pytest.mark.parametrize(
    ("card", "path", "role"),
    [(KAOS_CARD, "agent", "task-delegation"), (KAOS_TASKS_CARD, "agent.json", "user")],
    ids=["capabilities", "tasks"],
)
async def test_an_agent_of_kaos_is_known_by_its_card(
    kind: DelegateKind, card: JsonObject, path: str, role: str
) -> None:
    peer = Peer(card, f"/.well-known/{path}")
    async with served(peer) as url:
        offering = await offered(kind, chief(url))
        assert offering.name == "delegate_to_researcher"
        assert (
            offering.description == "Finds things out.\n\nIts skills:\n- search: Searches the web."
        )
        assert offering.parameters["required"] == ["task"]
        assert (offering.idempotent, offering.takes_context) == (False, True)
        assert (
            await told(kind, chief(url), "say Wood floats.", before=BEFORE)
        ).text == "Wood floats."
    [body] = peer.bodies
    assert body == {
        "model": "researcher",
        "messages": [
            {"role": "user", "content": "What floats?"},
            {"role": "assistant", "content": "Wood."},
            {"role": role, "content": "say Wood floats."},
        ],
        "stream": False,
    }
    assert (
        peer.headers[0]["traceparent"] == "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    )


@pytest.mark.parametrize("place", ["{url}", "{url}/", "{url}/v1", "{url}/v1/chat/completions"])
async def test_an_endpoint_of_chat_completions_needs_no_card(
    kind: DelegateKind, place: str
) -> None:
    peer = Peer()
    async with served(peer) as url:
        agent = chief(
            place.format(url=url),
            protocol="openai",
            model="gpt",
            apiKey="k-1",
            headers={"X-Team": "blue"},
        )
        assert (await told(kind, agent, "say yes")).text == "yes"
    assert (peer.cards, peer.bodies[0]["model"]) == (0, "gpt")
    assert peer.bodies[0]["messages"] == [{"role": "task-delegation", "content": "say yes"}]
    assert (peer.headers[0]["authorization"], peer.headers[0]["x-team"]) == ("Bearer k-1", "blue")


async def test_a_server_that_does_not_know_the_role_gets_the_task_as_a_user_s(
    kind: DelegateKind,
) -> None:
    peer = Peer(roles=("user",))
    async with served(peer) as url:
        assert (await told(kind, chief(url, protocol="openai"), "say yes")).text == "yes"
    assert [body["messages"][-1]["role"] for body in peer.bodies] == ["user"]


async def test_an_agent_of_a2a(kind: DelegateKind) -> None:
    remote = RemoteAgent(key="the-key-of-the-office")
    async with remote.served() as url:
        agent = chief(url, apiKey="the-key-of-the-office")
        offering = await offered(kind, agent)
        assert (
            offering.description
            == "Knows the weather.\n\nIts skills:\n- Rain: Says where it rains."
        )
        assert (
            offering.idempotent,
            offering.takes_context,
            list(offering.parameters["properties"]),
        ) == (
            True,
            False,
            ["task"],
        )
        assert (await told(kind, agent, "echo It rains.")).text == "It rains."
        failed = await told(kind, agent, "fail No window.")
        asks = await told(kind, agent, "ask")
    assert remote.executions[0] == "run/1/0"
    assert (failed.status, failed.text) == (
        "error",
        "[Delegation failed: The agent 'delegate_to_researcher' has failed: No window.]",
    )
    assert (
        asks.text
        == "[Delegation failed: The agent 'delegate_to_researcher' asks for input: Which city?]"
    )


async def test_a_card_may_be_named_itself(kind: DelegateKind) -> None:
    peer = Peer(KAOS_CARD, "/cards/.well-known/agent.json")
    async with served(peer) as url:
        [tool] = with_agents({"name": "r", "cardUrl": f"{url}{peer.card_path}"}).tools or []
        [offering] = await kind.offer(tool, Asking(Agent(), {}))
    assert (offering.name, peer.cards) == ("delegate_to_r", 1)


@pytest.mark.parametrize(
    ("card", "problem"),
    [
        (None, "HTTP status 404"),
        ({"name": "x", "supportedInterfaces": []}, "no interface by"),
    ],
)
async def test_an_agent_whose_card_can_t_be_used_is_not_offered(
    kind: DelegateKind, card: Any, problem: str
) -> None:
    async with served(Peer(card, "/.well-known/agent-card.json")) as url:
        with pytest.raises(ToolUnavailable, match=problem):
            await offered(kind, chief(url))


@pytest.mark.parametrize(
    ("task", "kind_of_error", "text"),
    [
        ("status 500", "http_500", 'HTTP status 500: {"detail":"not now"}'),
        ("body <html>", "nonsense", "its answer makes no sense: <html>"),
        ("body " + json.dumps(completion(None)), "nonsense", "its answer has no text, but None"),
        ("huge", "too_large", "the answer is larger than 4,194,304 bytes"),
        (" ", "invalid_arguments", "missing 'task': describe the agent's task"),
    ],
    ids=["500", "html", "null", "huge", "no task"],
)
async def test_what_goes_wrong_is_text_for_the_model(
    kind: DelegateKind, task: str, kind_of_error: str, text: str
) -> None:
    peer = Peer()
    async with served(peer) as url:
        result = await told(kind, chief(url, protocol="openai"), task)
    assert (result.status, result.error_kind) == ("error", kind_of_error)
    assert result.text.startswith(f"[Delegation failed: {text}")
    assert result.text.endswith("]")
    assert result.outcome_unknown == (kind_of_error != "invalid_arguments")
    assert len(peer.bodies) == (0 if task == " " else 1)


async def test_an_answer_in_parts(kind: DelegateKind) -> None:
    async with served(Peer()) as url:
        parts = completion([{"type": "text", "text": "a"}, {"type": "image_url"}, "b"])
        assert (
            await told(kind, chief(url, protocol="openai"), f"body {json.dumps(parts)}")
        ).text == "ab"


async def test_a_task_that_takes_too_long(kind: DelegateKind) -> None:
    async with served(Peer()) as url:
        result = await told(kind, chief(url, protocol="openai", timeout=1.0), "hold")
    assert (result.status, result.text) == (
        "timeout",
        "[Delegation failed: no answer within 1 second]",
    )
    assert result.outcome_unknown
