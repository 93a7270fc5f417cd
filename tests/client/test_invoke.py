"""`invoke_agent` and `invoke_agent_async`: one call, a real run (§9, §13.7)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from temporalio.client import Client

import perdure
from perdure import CancellationToken
from perdure.json_types import JsonObject
from perdure.testing import ScriptedModel, asks, says

AGENT = """---
name: weather
model:
  id: gpt-4o
  provider: openai
  connection:
    kind: key
    endpoint: ${env:TEST_ENDPOINT}
    apiKey: ${env:TEST_KEY}
inputs:
  question: {kind: string, required: true}
tools:
  - name: get_weather
    kind: function
    parameters:
      city: {kind: string, required: true}
---
system:
You know the weather.

user:
{{question}}
"""

ASK = asks("get_weather", city="Paris")
ANSWER = says("It is sunny in Paris.")


@perdure.tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedModel]:
    with ScriptedModel([ASK, ANSWER]) as model:
        monkeypatch.setenv("TEST_ENDPOINT", model.openai_endpoint)
        monkeypatch.setenv("TEST_KEY", "sk-test")
        yield model


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    path = tmp_path / "weather.prompty"
    path.write_text(AGENT)
    return path


async def test_returns_the_result_and_delivers_every_event(
    client: Client, model: ScriptedModel, agent: Path
) -> None:
    events: list[tuple[str, JsonObject]] = []
    result = await perdure.invoke_agent_async(
        agent,
        {"question": "How is the weather?"},
        [get_weather],
        on_event=lambda type, data: events.append((type, data)),
        client=client,
    )
    assert result == "It is sunny in Paris."
    assert ("tool_result", {"name": "get_weather", "result": "sunny in Paris"}) in events
    assert events[-1][0] == "done"
    assert [message.role for message in events[-1][1]["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


async def test_an_event_callback_that_raises_does_not_end_the_run(
    client: Client, model: ScriptedModel, agent: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def on_event(type: str, data: JsonObject) -> None:
        raise ValueError("no")

    result = await perdure.invoke_agent_async(
        agent, {"question": "?"}, {"get_weather": get_weather}, on_event=on_event, client=client
    )
    assert result == "It is sunny in Paris."
    assert "on_event raised" in caplog.text


async def test_a_token_cancelled_before_the_call_means_no_model_call(
    client: Client, model: ScriptedModel, agent: Path
) -> None:
    token = CancellationToken()
    token.cancel()
    with pytest.raises(perdure.RunCancelled) as caught:
        await perdure.invoke_agent_async(
            agent, {"question": "?"}, [get_weather], cancel=token, client=client
        )
    assert caught.value.iterations == 0
    assert model.requests == []


async def test_a_token_cancelled_from_another_thread_ends_the_run(
    client: Client, model: ScriptedModel, agent: Path
) -> None:
    token = CancellationToken()

    def on_event(type: str, data: JsonObject) -> None:
        if type == "tool_result":
            threading.Thread(target=token.cancel).start()

    with (
        ScriptedModel([ASK, says("late", delay=30)]) as slow,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("TEST_ENDPOINT", slow.openai_endpoint)
        with pytest.raises(perdure.RunCancelled) as caught:
            await perdure.invoke_agent_async(
                agent,
                {"question": "?"},
                [get_weather],
                cancel=token,
                on_event=on_event,
                client=client,
            )
    assert caught.value.messages[-1].role == "tool"
    assert caught.value.reason == "the caller's CancellationToken"


def test_without_a_server_the_embedded_one_is_used(
    model: ScriptedModel, agent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TEMPORAL_ADDRESS", raising=False)
    monkeypatch.setenv("PERDURE_HOME", str(tmp_path / "home"))
    for _ in range(2):
        assert (
            perdure.invoke_agent(agent, {"question": "?"}, [get_weather]) == "It is sunny in Paris."
        )


async def test_the_plain_form_works_inside_a_running_loop(
    model: ScriptedModel, agent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_HOME", str(tmp_path / "home"))
    assert perdure.invoke_agent(agent, {"question": "?"}, [get_weather]) == "It is sunny in Paris."
    await asyncio.sleep(0)


async def test_what_the_call_does_not_say_the_file_does(
    client: Client, model: ScriptedModel, agent: Path
) -> None:
    agent.write_text(
        agent.read_text().replace(
            "tools:\n", "metadata: {perdure: {maxIterations: 1}}\ntools:\n", 1
        )
    )
    call = {"client": client, "inputs": {"question": "How is the weather?"}, "tools": [get_weather]}
    with pytest.raises(perdure.MaxIterationsError):
        await perdure.invoke_agent_async(agent, **call)
    model.requests.clear()
    assert (
        await perdure.invoke_agent_async(agent, max_iterations=10, **call)
        == "It is sunny in Paris."
    )
