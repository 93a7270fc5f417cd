"""Answers from `DEBUG_MOCK_RESPONSES`: recorded in the run, addressed by call, honoured only where
a worker may.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from perdure.agents import Agent
from perdure.client import RunHandle
from perdure.errors import ExecuteError, RunError
from perdure.interop.kaos import run_events
from perdure.messages import Usage
from perdure.prompty.load import load
from perdure.testing import says

from ..support.agents import declared, scripted_agent, tool_texts
from ..support.stage import Stage
from ..support.waiting import wait_for
from ..workflows.test_approvals import Scripted

MOCKED = Agent.model_validate({"name": "mocked", "tools": [declared("echo")]})
CALL = '{"tool_calls": [{"name": "echo", "arguments": {"text": "hello"}}]}'


def echo(text: str = "") -> str:
    return f"echo: {text}"


@pytest.fixture
def mocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEBUG_MOCK_RESPONSES", json.dumps([CALL, "The echo returned: hello"]))


@pytest.mark.usefixtures("mocks")
async def test_an_agent_without_a_model_is_mocked_and_streams(stage: Stage) -> None:
    async with stage.worker({"echo": echo}, mock=True):
        run = await stage.start(MOCKED, stream=True, max_cost_usd=1.0)
        result = await run.result()
        tokens = [event.data["token"] async for event in run.stream() if event.type == "token"]
    assert result.output == "The echo returned: hello"
    assert "".join(tokens) == result.output
    assert (result.iterations, result.usage, result.cost_usd) == (2, Usage(), 0.0)
    assert tool_texts(result.messages) == ["echo: hello"]
    chats = [span for span in await run.trace() if span.name.startswith("chat")]
    assert [(span.attributes or {}).get("perdure.mock") for span in chats] == [True, True]


@pytest.mark.usefixtures("mocks")
async def test_a_worker_without_mock_ignores_the_variable(stage: Stage, scripted: Scripted) -> None:
    async with stage.worker():
        run = await stage.start(scripted_agent(scripted([says("from the model")])))
        assert (await run.result()).output == "from the model"


@pytest.mark.usefixtures("mocks")
async def test_more_calls_than_answers_fail_the_run_at_once(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEBUG_MOCK_RESPONSES", CALL)
    async with stage.worker({"echo": echo}, mock=True):
        run = await stage.start(MOCKED)
        with pytest.raises(
            ExecuteError, match="the run has 1 mock answer, and this is model call 2"
        ) as failed:
            await run.result()
    assert failed.value.reason == "configuration"
    assert [message.role for message in failed.value.messages] == [
        "system",
        "user",
        "assistant",
        "tool",
    ]


@pytest.mark.usefixtures("mocks")
async def test_a_worker_that_was_not_started_so_leaves_the_call_to_another(stage: Stage) -> None:
    """The run's inventory has the answers; the worker that goes on with it honours none."""
    asks = Agent.model_validate(
        {"name": "mocked", "tools": [{**declared("echo"), "perdure": {"approval": "always"}}]}
    )

    async def waits(run: RunHandle) -> bool:
        return (await run.status()).status == "waiting_for_approval"

    async with stage.worker({"echo": echo}, mock=True):
        run, impatient = await stage.start(asks), await stage.start(asks, missing_tool_grace=0.0)
        for each in (run, impatient):
            await wait_for(partial(waits, each))
    async with stage.worker({"echo": echo}):
        await impatient.approve("mock_1_0_echo")
        with pytest.raises(RunError, match="perdure worker --mock"):
            await impatient.result()
        await run.approve("mock_1_0_echo")

        async def is_offered() -> bool:
            missing = (await run.status()).missing
            return missing is not None and missing.what == ["mock answers"]

        await wait_for(is_offered)
        async with stage.another_worker({"echo": echo}, mock=True):
            assert (await run.result()).output == "The echo returned: hello"


ECHO = (
    r'["{\"tool\": \"echo\", \"arguments\": {\"text\": \"hello\"}}", "{}", "The echo returned: '
    r'hello"]'
)
RESEARCH = (
    r'["{\"agent\": \"researcher\", \"task\": \"Find quantum info\"}", "{}", '
    r'"Based on the research, quantum computing uses qubits."]'
)
PLAIN = r'["{}", "Hello! How can I help you?"]'

KAOS = """---
name: kaos
metadata:
  perdure:
    toolProtocol: json
    agents:
      - {name: researcher, path: researcher.prompty, description: Finds things}
tools:
  - {name: echo, kind: function, parameters: [{name: text, kind: string}]}
---
system:
You are a helpful agent
"""
RESEARCHER = """---
name: researcher
inputs:
  - {name: task, kind: string}
---
user:
{{task}}
"""


@pytest.mark.parametrize(
    ("answers", "output", "types"),
    [
        (
            ECHO,
            "The echo returned: hello",
            ["user_message", "tool_call", "tool_result", "agent_response"],
        ),
        (
            RESEARCH,
            "Based on the research, quantum computing uses qubits.",
            ["user_message", "delegation_request", "delegation_response", "agent_response"],
        ),
        (PLAIN, "Hello! How can I help you?", ["user_message", "agent_response"]),
    ],
    ids=["tool call", "delegation", "simple response"],
)
async def test_the_examples_of_kaos_literally(
    stage: Stage,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    answers: str,
    output: str,
    types: list[str],
) -> None:
    (tmp_path / "kaos.prompty").write_text(KAOS)
    (tmp_path / "researcher.prompty").write_text(RESEARCHER)
    monkeypatch.setenv("DEBUG_MOCK_RESPONSES", answers)
    monkeypatch.setenv("DEBUG_MOCK_RESPONSES_RESEARCHER", '["It uses qubits."]')
    async with stage.worker({"echo": echo}, mock=True):
        run = await stage.start(load(tmp_path / "kaos.prompty"))
        result = await run.result()
    assert (result.output, result.is_incomplete) == (output, False)
    events = await run.events()
    said = await run_events(stage.client, run.id)
    assert [event.event_type for event in said] == types
    told = [event.data for event in events if event.type == "progress"]
    assert [(each["step"], each["max_steps"]) for each in told] == [(1, 5)] * (len(types) == 4)
    if "delegation_response" in types:
        assert said[1].content == {"agent": "researcher", "task": "Find quantum info"}
        assert said[2].content == {"agent": "researcher", "response": "It uses qubits."}
        assert (told[0]["action"], told[0]["target"]) == ("delegate", "researcher")
