"""Runs of agents in this process: from a file or an agent, with a list of replies or a function as
the model.
"""

from __future__ import annotations

import dataclasses
import inspect
import time
from pathlib import Path
from typing import Any

import pytest

from perdure import (
    Agent,
    ExecuteError,
    Message,
    ModelError,
    RunCancelled,
    RunOptions,
    ToolCall,
    ToolNotRegisteredError,
)
from perdure.errors import ConfigurationError
from perdure.messages import ModelReply
from perdure.testing import InProcessRun, ScriptedReply, asks, call, run_in_process, says

LIBRARIAN = """---
name: librarian
model:
  id: any
  connection: {kind: key, endpoint: "${env:NOT_SET_ANYWHERE}", apiKey: "${env:NOT_SET_ANYWHERE}"}
inputs:
  shelf: {kind: string, default: A}
  topic: {kind: string, required: true}
tools:
  - name: find
    kind: function
    parameters:
      topic: {kind: string, required: true}
      shelf: {kind: string, required: true}
    bindings:
      shelf: shelf
---
user:
What is there about {{topic}}?
"""

AGENT = Agent.model_validate({"name": "bare", "instructions": "user:\nHi"})


def find(topic: str, shelf: str) -> str:
    return f"a book about {topic} on shelf {shelf}"


@pytest.fixture
def librarian(tmp_path: Path) -> Path:
    path = tmp_path / "librarian.prompty"
    path.write_text(LIBRARIAN)
    return path


def test_a_file_its_prompt_its_tools_and_a_list_of_replies(librarian: Path) -> None:
    script = [asks("find", topic="bees"), says("Read this")]
    result = run_in_process(librarian, inputs={"topic": "bees"}, tools=[find], model=script)
    assert result.output == "Read this"
    assert [message.text for message in result.messages] == [
        "What is there about bees?",
        "",
        "a book about bees on shelf A",
        "Read this",
    ]


async def test_a_function_of_the_agent_and_the_conversation() -> None:
    def model(agent: Agent, messages: list[Message]) -> ScriptedReply:
        return says(f"{agent.name} heard: {messages[-1].text}")

    assert (await InProcessRun(AGENT, model=model).run()).output == "bare heard: Hi"


async def test_a_model_reply_is_taken_as_it_is() -> None:
    reply = ModelReply(message=Message.assistant("Hi"), warnings=["old model"])
    said: list[Any] = []
    run = InProcessRun(
        AGENT, model=[reply], on_event=lambda type, data: said.append(data.get("message"))
    )
    assert (await run.run()).output == "Hi"
    assert "old model" in said


async def test_a_script_that_is_too_short_says_so() -> None:
    started = time.monotonic()
    with pytest.raises(ExecuteError, match="the script has 0 replies, and this is model call 1"):
        await InProcessRun(AGENT, model=[]).run()
    assert time.monotonic() - started < 1


@pytest.mark.parametrize(
    ("failing", "kind"),
    [
        (ScriptedReply(status=401), "authentication"),
        (
            ScriptedReply(status=400, error={"error": {"code": "context_length_exceeded"}}),
            "context_length",
        ),
        (ScriptedReply(error={"error": {"type": "overloaded_error"}}), "overloaded"),
        (ScriptedReply(drop_after=0), "connection"),
        (ModelError("no", kind="refusal", provider="any"), "refusal"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_scripted_failures_are_those_of_a_provider(failing: Any, kind: str) -> None:
    with pytest.raises(ExecuteError) as caught:
        await InProcessRun(AGENT, model=[failing], options=RunOptions(max_llm_retries=1)).run()
    assert caught.value.reason == kind


async def test_a_delay_is_kept_and_ends_with_the_run() -> None:
    started = time.monotonic()
    await InProcessRun(AGENT, model=[says("Hi", delay=0.05)]).run()
    assert time.monotonic() - started >= 0.05
    run = InProcessRun(
        AGENT, model=[says("Hi", delay=30)], on_event=lambda type, data: run.cancel()
    )
    with pytest.raises(RunCancelled):
        await run.run()


def test_a_missing_tool_fails_the_run_before_the_first_model_call(librarian: Path) -> None:
    with pytest.raises(ToolNotRegisteredError, match="find"):
        run_in_process(librarian, inputs={"topic": "bees"}, model=[])


def test_asks_takes_a_tool_with_its_arguments_or_calls() -> None:
    assert asks("find", topic="bees") == ScriptedReply(tool_calls=[call("find", topic="bees")])
    assert asks("find", "b", text="bees").tool_calls == [
        ToolCall(id="b", name="find", arguments='{"text": "bees"}')
    ]
    both = asks(call("find", "a"), call("find", "b"), text="Let me look", thinking="hm")
    assert ([each.id for each in both.tool_calls], both.text, both.thinking) == (
        ["a", "b"],
        "Let me look",
        "hm",
    )


def test_the_plain_form_has_the_parameters_of_the_run() -> None:
    assert inspect.signature(run_in_process) == inspect.signature(InProcessRun)


@dataclasses.dataclass
class Book:
    title: str
    year: int


def test_an_answer_as_a_value_of_a_type(librarian: Path) -> None:
    asked: list[Agent] = []

    def model(agent: Agent, messages: list[Message]) -> ScriptedReply:
        asked.append(agent)
        return says('{"title": "Bees"}' if len(asked) == 1 else '{"title": "Bees", "year": 1901}')

    given = {"inputs": {"topic": "bees"}, "tools": [find], "model": model}
    result = run_in_process(librarian, **given, output_type=Book)
    assert result.output == Book("Bees", 1901)
    assert [each.name for each in asked[0].outputs or []] == ["title", "year"]
    assert len(asked) == 2, "an answer that does not fit is sent back"


def test_a_type_that_no_model_can_be_asked_for() -> None:
    with pytest.raises(ConfigurationError, match="output_type=list"):
        run_in_process(AGENT, model=[], output_type=list)
