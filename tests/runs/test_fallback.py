"""A fallback on a real server: what the history, the events, the trace and the cost say of which
model answered.
"""

from __future__ import annotations

import pytest

from perdure.agents import Agent
from perdure.client import RunHandle
from perdure.messages import ImagePart, Message, TextPart, ToolResult
from perdure.testing import ScriptedModel, ScriptedReply, asks, call, says

from ..providers.servers.anthropic import Anthropic
from ..providers.servers.azure import Azure
from ..providers.servers.deepseek import DeepSeek
from ..providers.servers.gemini import Gemini
from ..providers.servers.kimi import Kimi
from ..providers.servers.mistral import Mistral
from ..providers.servers.strict import StrictServer
from ..providers.servers.vllm import VLLM
from ..support.fake_services import Account, FakeServices, Turn, fake_services
from ..support.stage import Stage

REFUSED = ScriptedReply(status=401)


def agent(first: ScriptedModel, second: ScriptedModel) -> Agent:
    """An agent of OpenAI Chat, which Anthropic replaces."""
    other = {
        "id": "second",
        "provider": "anthropic",
        "connection": {
            "kind": "key",
            "endpoint": second.anthropic_endpoint,
            "apiKey": "${env:PERDURE_TEST_SECOND}",
        },
    }
    connection = {"kind": "key", "endpoint": first.openai_endpoint}
    return Agent.model_validate(
        {
            "name": "tested",
            "model": {"id": "first", "connection": connection, "fallback": [other]},
            "tools": [{"name": "f", "kind": "function"}],
        }
    )


async def test_which_model_answered_is_recorded(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_TEST_SECOND", "sk-of-the-second-model")
    with (
        ScriptedModel([REFUSED]) as first,
        ScriptedModel([asks(call("f", "c1")), says("Done.")]) as second,
    ):
        prices = {
            "openai/first": {"input": 1, "output": 1},
            "anthropic/second": {"input": 10, "output": 10},
        }
        async with stage.worker({"f": lambda: "ok"}, prices=prices):
            run = await stage.start(agent(first, second), stream=True, max_cost_usd=5)
            result = await run.result()
        assert (result.output, len(first.requests), len(second.requests)) == ("Done.", 1, 2)
        assert any(
            "sk-of-the-second-model" in value for value in second.requests[0].headers.values()
        )
    events = await run.events()
    [passed] = [event.data for event in events if event.type == "model_fallback"]
    assert (passed["failed"], passed["model"], passed["kind"]) == (
        "openai/first",
        "anthropic/second",
        "authentication",
    )
    assert [event.data["model"] for event in events if event.type == "llm_complete"] == [
        "anthropic/second"
    ] * 2
    assert result.cost_usd == pytest.approx(result.usage.total_tokens * 10 / 1e6)
    chats = [span for span in await run.trace() if span.name.startswith("chat")]
    assert [span.name for span in chats] == ["chat first", "chat second", "chat second"]
    assert [dict(span.attributes or {})["gen_ai.provider.name"] for span in chats] == [
        "openai",
        "anthropic",
        "anthropic",
    ]
    lines = [line async for line in run.export()]
    calls = [line["settings"]["model"] for line in lines if line["kind"] == "model_call"]
    assert calls == ["first", "second", "second"]
    assert "sk-of-the-second-model" not in str(lines)


MOVES: list[list[type[StrictServer]]] = [
    [Gemini, Anthropic, Mistral],
    [DeepSeek, VLLM],
    [Azure, Kimi],
]
LOOKING = [{"name": "look", "kind": "function", "parameters": [{"name": "at", "kind": "string"}]}]
PNG = "data:image/png;base64,iVBORw0KGgo="
BREAKS = Turn(instead="breaks")


def look(at: str) -> ToolResult:
    return ToolResult(parts=[TextPart(value=f"At {at}:"), ImagePart(source=PNG)], status="success")


async def test_a_run_moves_between_services_that_break_down_and_comes_back(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes the conversation as the others have left it, ends up with status 500, and the
    first one answers.
    """
    monkeypatch.setenv("PERDURE_TEST_KEY", "sk-test")
    async with fake_services() as services, stage.worker({"look": look}):
        begun = [await _begin(stage, services, number, move) for number, move in enumerate(MOVES)]
        for run, accounts in begun:
            result = await run.result()
            assert [problem for account in accounts for problem in account.problems] == []
            assert result.output == f"Seen by {accounts[0].server.name}."
            passed = [
                event.data["model"]
                for event in await run.events()
                if event.type == "model_fallback"
            ]
            names = [f"{account.server.api[0]}/{account.server.name}" for account in accounts]
            assert passed == [each for other in names[1:] for each in (other, names[0])], (
                "the first is tried again"
            )
    await stage.replay()


async def _begin(
    stage: Stage, services: FakeServices, number: int, move: list[type[StrictServer]]
) -> tuple[RunHandle, list[Account]]:
    servers = [each() for each in move]
    asking = [
        Turn([("look", '{"at":"a"}'), ("look", '{"at":"b"}')], text="Hm."),
        Turn([("look", '{"at":"c"}')]),
        BREAKS,
    ]
    answers = [BREAKS] * (len(servers) - 2) + [Turn(text=f"Seen by {servers[0].name}.")]
    accounts = [
        services.open(
            server, number, ["look"], [*asking, *(answers if server is servers[0] else ())]
        )
        for server in servers
    ]
    models = [server.model(services.endpoint(server)) for server in servers]
    for model in models:
        model["connection"]["apiKey"] = "${env:PERDURE_TEST_KEY}"
    first, *others = models
    agent = Agent.model_validate(
        {"name": "mover", "model": {**first, "fallback": others}, "tools": LOOKING}
    )
    messages = [
        Message.system("Look."),
        Message.user(f"This is conversation {number}. What is there?"),
    ]
    return await stage.start(agent, messages, stream=number % 2 == 0, max_llm_retries=1), accounts
