"""Instructions that a function gives: after the agent's own or in their place, of inputs and deps,
for each agent.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import perdure
from perdure import ToolContext
from perdure.errors import ConfigurationError
from perdure.json_types import JsonObject
from perdure.messages import Message
from perdure.testing import asks, call, run_in_process, says


class Deps(BaseModel):
    tenant: str


def greet(inputs: JsonObject, context: ToolContext[Deps]) -> str:
    return f"Greet {inputs['question']} of {context.deps.tenant}."


async def wait() -> str:
    return "Wait."


def instructions(messages: list[Message]) -> list[str]:
    return [message.text for message in messages if message.instructs]


DEPS = Deps(tenant="north")


def test_they_follow_the_agent_s_own() -> None:
    agent = perdure.agent("openai/a", instructions="Be kind.", instructions_by=greet)
    result = run_in_process(agent, inputs="Ada", model=[says("Hi.")], deps=DEPS)
    assert instructions(result.messages) == ["Be kind.", "Greet Ada of north."]
    again = run_in_process(agent, result.messages, inputs="Bo", model=[says("Hi.")], deps=DEPS)
    assert instructions(again.messages) == ["Be kind.", "Greet Bo of north."]


def test_a_file_names_them_and_has_them_replace_its_own(tmp_path: Path) -> None:
    file = tmp_path / "desk.prompty"
    settings = "metadata:\n  perdure: {instructionsBy: wait, instructionsReplaced: true}"
    file.write_text(f"---\nname: desk\n{settings}\n---\nsystem:\nHurry.")
    result = run_in_process(file, model=[says("Hi.")], instructions={"wait": wait})
    assert instructions(result.messages) == ["Wait."]
    with pytest.raises(ConfigurationError, match="no instructions named 'wait' on this worker"):
        run_in_process(file, model=[says("Hi.")])


def test_each_agent_has_its_own() -> None:
    second = perdure.agent("openai/b", name="second", instructions="Second.", instructions_by=wait)
    first = perdure.agent(
        "openai/a", name="first", instructions="First.", instructions_by=greet, handoffs=[second]
    )
    model = [asks(call("transfer_to_second", "call_1")), says("Done.")]
    result = run_in_process(first, inputs="Ada", model=model, deps=DEPS)
    assert instructions(result.messages) == ["Second.", "Wait."]


def test_what_is_no_text_is_refused() -> None:
    agent = perdure.agent("openai/a", instructions_by=_number)
    with pytest.raises(TypeError, match="the instructions '_number' are 7: expected a text"):
        run_in_process(agent, inputs="Ada", model=[says("Hi.")])


def _number() -> Any:
    return 7
