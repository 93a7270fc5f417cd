"""`perdure.agent(…)`: an agent in one expression, with its functions and the type of its answer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pydantic import BaseModel, Field
from temporalio.client import Client

import perdure
from perdure.client import session, start_run
from perdure.prompty.portable import agent_to_dict
from perdure.testing import ScriptedModel, asks, run_in_process, says
from perdure.worker import create_worker

FILE = """---
name: agent
model: {id: gpt-5, provider: openai, options: {temperature: 0}}
inputs:
  - {name: place, kind: string, required: true}
  - {name: question, kind: string, required: true}
tools:
  - name: look
    kind: function
    description: Look at the sky.
    parameters: [{name: place, required: true}]
---
You are in {{place}}.

user:
{{question}}
"""


class Weather(BaseModel):
    degrees: int = Field(ge=-90)


def look(place: str) -> str:
    """Look at the sky."""
    return f"blue in {place}"


def made(model: ScriptedModel | None = None, **more: Any) -> perdure.Agent:
    connection = {"endpoint": model.openai_endpoint} if model else None
    return perdure.agent("openai/gpt-5", tools=[look], connection=connection, **more)


def test_it_is_the_same_agent_as_that_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.prompty").write_text(FILE)
    agent = made(instructions="You are in {{place}}.", options={"temperature": 0})
    assert agent_to_dict(agent) == agent_to_dict(perdure.load(tmp_path / "a.prompty"))


async def test_it_brings_its_functions_and_its_type(client: Client) -> None:
    with ScriptedModel(
        [asks("look", place="Oslo"), says('{"degrees": -100}'), says('{"degrees": 7}')]
    ) as model:
        agent = made(model, instructions="Tell the weather.", output_type=Weather)
        assert await perdure.invoke_agent_async(agent, "How is Oslo?", client=client) == Weather(
            degrees=7
        )
    assert [message.text for message in model.requests[0].messages] == [
        "Tell the weather.",
        "How is Oslo?",
    ]
    assert model.requests[1].messages[-1].text == "blue in Oslo"


async def test_a_worker_has_its_functions_by_the_agent(client: Client) -> None:
    with ScriptedModel([asks("look", place="Oslo"), says("Blue.")]) as model:
        agent, queue = made(model, instructions="Tell the weather."), f"test-{uuid4()}"
        async with create_worker(client, task_queue=queue, tools=[agent], registered_tools=False):
            run = await start_run(client, agent, "How is Oslo?", task_queue=queue)
            assert (await run.result()).output == "Blue."
            run = await session(client, agent, queue, task_queue=queue).send("And now?")
            assert (await run.result()).output == "Blue."
    assert model.requests[-1].messages[-1].text == "blue in Oslo"


def test_other_tools_are_declared_as_in_files() -> None:
    agent = perdure.agent(
        {"id": "m", "provider": "anthropic"}, tools=[look, {"name": "ask_user", "kind": "builtin"}]
    )
    assert [(tool.name, tool.kind) for tool in agent.tools or ()] == [
        ("ask_user", "builtin"),
        ("look", "function"),
    ]
    assert agent.model is not None
    assert agent.model.provider == "anthropic"
    named = perdure.agent("meta-llama/Llama-3", instructions="user:\nHello.").model
    assert named is not None
    assert (named.id, named.provider) == ("meta-llama/Llama-3", None)


@pytest.mark.parametrize("model", ["", " ", "openai/", "anthropic/", {"provider": "openai"}])
def test_a_model_without_an_id_is_refused(model: Any) -> None:
    with pytest.raises(
        perdure.LoadError,
        match=r"model\.id: is missing: expected a model's id, such as gpt-4\.1-mini",
    ):
        perdure.agent(model)


def test_a_server_with_one_model_needs_no_id() -> None:
    assert perdure.agent("", connection={"endpoint": "http://localhost:8080/v1"}).model is not None


def test_a_text_alone_is_the_only_input() -> None:
    agent = made(instructions="You are in {{place}}.")
    with pytest.raises(TypeError, match="this one has place, question: give a mapping"):
        run_in_process(agent, model=[says("")], inputs="How is Oslo?")


@pytest.mark.parametrize(
    "before", ["", "import perdure.agents", "from perdure.agents import Agent", "perdure.load"]
)
def test_the_function_is_there_whatever_was_imported_before(before: str) -> None:
    code = (
        f"import perdure; {before}\nprint(perdure.agent('openai/gpt-5').model.id)\nfrom "
        "perdure.agent import Agent"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "gpt-5\n", done.stderr
