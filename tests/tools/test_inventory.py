"""A tool is written once: what the file leaves out about it is taken from its function, and
recorded with the run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import pytest
from temporalio.client import Client

import perdure
from perdure.errors import RunError
from perdure.json_types import JsonObject
from perdure.testing import ScriptedModel, asks, call, run_in_process, says
from perdure.tools import clear_tools, tool

from ..support.agents import Scripted, scripted_agent
from ..support.documents import ROOT
from ..support.stage import Stage
from ..support.waiting import asked

README = ROOT / "README.md"
BY_NAME = {"name": "find_books", "kind": "function"}


@pytest.fixture(autouse=True)
def _forget_tools() -> Iterator[None]:
    yield
    clear_tools()


def find_books(topic: Annotated[str, "what they are about"], limit: int = 3) -> list[str]:
    """Finds books on a topic.

    From the catalogue.
    """
    return [f"{topic} {number}" for number in range(limit)]


def offered(model: ScriptedModel, request: int = 0) -> JsonObject:
    """The one tool that a request to the model offers."""
    (only,) = model.requests[request].body["tools"]
    function: JsonObject = only["function"]
    return function


OFFERED = {
    "name": "find_books",
    "description": "Finds books on a topic.",
    "parameters": {
        "type": "object",
        "properties": {
            "topic": {"type": "string", "description": "what they are about"},
            "limit": {"type": "integer", "default": 3},
        },
        "required": ["topic"],
    },
}


async def test_what_the_first_worker_said_holds_for_the_run(
    stage: Stage, scripted: Scripted
) -> None:
    """A run that another worker takes over, whose function has another description, offers the
    first one.
    """
    model = scripted([asks(call("find_books", "a", topic="bees")), says("done")])

    @tool(needs_approval=True)
    def find(topic: str) -> str:
        """Finds books, says the first."""
        return topic

    @tool(needs_approval=True)
    def find_otherwise(topic: str) -> str:
        """Finds books, says the second."""
        return topic

    async with stage.worker({"find_books": find}):
        run = await stage.start(scripted_agent(model, [BY_NAME]))

        await asked(run)
    async with stage.worker({"find_books": find_otherwise}):
        await run.approve("a")
        await run.result()
    assert offered(model, 1) == offered(model)
    assert offered(model)["description"] == "Finds books, says the first."


CONTRADICTIONS = {
    "a parameter that the function lacks": (
        [{"name": "topic", "required": True}, {"name": "author"}],
        "'author' is declared, and the function does not have it",
    ),
    "a parameter that the file lacks": (
        [{"name": "limit", "kind": "integer"}],
        "the function requires 'topic', which is neither declared nor bound",
    ),
}


@pytest.mark.parametrize("what", CONTRADICTIONS)
def test_a_declaration_that_contradicts_its_function_fails_the_start(what: str) -> None:
    parameters, problem = CONTRADICTIONS[what]
    agent = perdure.load_dict(
        {"name": "a", "model": "m", "tools": [{**BY_NAME, "parameters": parameters}]}
    )
    with pytest.raises(RunError) as caught:
        run_in_process(agent, [], model=[says("done")], tools={"find_books": find_books})
    text = str(caught.value)
    assert (caught.value.kind, caught.value.iterations) == ("configuration", 0)
    assert problem in text
    assert "find_books(topic: string, limit?: integer)" in text  # the function


async def test_tools_of_the_call_that_the_file_does_not_declare_are_offered(
    client: Client, scripted: Scripted
) -> None:
    model = scripted([asks("find_books", topic="bees"), says("done")])
    answer = await perdure.invoke_agent_async(
        scripted_agent(model),
        tools={"find_books": find_books},
        client=client,
        messages=[perdure.Message.user("Bees?")],
    )
    assert answer == "done"
    assert offered(model) == OFFERED
    assert model.requests[1].body["messages"][-1]["content"] == '["bees 0","bees 1","bees 2"]'


def printed(language: str) -> str:
    """The first excerpt of the README in that language."""
    found = re.search(
        rf"^```{language}[^\n]*\n(.*?)^```", README.read_text(), re.DOTALL | re.MULTILINE
    )
    assert found
    return found[1]


async def test_the_librarian_of_the_readme_works_as_printed(
    client: Client, scripted: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = scripted([asks("find_books", topic="bees"), says("Read this.")])
    monkeypatch.setenv("OPENAI_BASE_URL", model.openai_endpoint)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    (tmp_path / "agent.prompty").write_text(printed("yaml"))
    names: JsonObject = {}
    exec(printed("python"), names)
    answer = await perdure.invoke_agent_async(
        tmp_path / "agent.prompty",
        {"question": "What on bees?"},
        tools=[names["find_books"]],
        client=client,
    )
    assert answer == "Read this."
    assert offered(model)["description"] == "Finds books on a topic."
    assert model.requests[1].body["messages"][-1]["content"].startswith("[")
