"""A fallback on a real server: what the history, the events, the trace and the cost say of which
model answered.
"""

from __future__ import annotations

import pytest

from perdure.agents import Agent
from perdure.testing import ScriptedModel, ScriptedReply, asks, call, says

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
