"""The files of docs/reference/agent-file.md: each is without a problem, runs, and together they show every
key that there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from docs import write_agent_file
from perdure import Agent, load, prepare
from perdure.client import start_run
from perdure.declared_tools import Connection, Node
from perdure.json_types import JsonObject
from perdure.prompty.check.check import check
from perdure.testing import asks, call, run_in_process, says

from ..support.agents import Scripted
from ..support.stage import Stage

FILES = sorted(write_agent_file.EXAMPLES.glob("*.prompty"))
PROVIDERS = sorted(write_agent_file.EXAMPLES.glob("providers/*.prompty"))
KEYS = {
    "azure": "AZURE_OPENAI_API_KEY",
    "bedrock": "AWS_BEARER_TOKEN_BEDROCK",
    "gemini": "GEMINI_API_KEY",
    "litellm": "LITELLM_API_KEY",
    "vllm": "VLLM_API_KEY",
}
PICTURE = "data:image/png;base64,iVBORw0KGgo="
INPUTS: dict[str, JsonObject] = {
    "booking": {"guest": "Ada"},
    "looker": {"photo": PICTURE},
    "patient": {"question": "When?"},
    "desk": {"question": "Where is order 7?"},
    "librarian": {"question": "Bees?"},
}
ANSWERS = {
    "booking": ('{"confirmed": true, "price": 90}', {"confirmed": True, "price": 90}),
    "librarian": (
        '{"title": "Keeping bees", "reason": "It is on bees."}',
        {"title": "Keeping bees", "reason": "It is on bees."},
    ),
}


def refund(order: str, euros: float, tenant: str) -> str:
    return f"refunded {euros} for {order} to {tenant}"


def word_count(text: str) -> int:
    return len(text.split())


def find_books(topic: str) -> str:
    return f"Keeping {topic}"


def pay(euros: float) -> str:
    return f"paid {euros}"


TOOLS = {"desk": [refund, pay, word_count], "librarian": [find_books]}
FOR_OTHERS = {"Connection.authenticationMode", "Connection.usageDescription", "Connection.target"}
FOR_OTHERS |= {
    "Connection.connectionType",
    "Connection.name",
    "CustomTool.connection",
    "CustomTool.options",
}
FOR_OTHERS |= {"CustomTool.parameters", "CustomTool.recorded", "Agent.instructions"}
"""Keys that other programs read, or that the page of a kind of tool shows."""


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "TICKETS_KEY", "ORDERS_SECRET", "WIKI_SECRET", *KEYS.values()):
        monkeypatch.setenv(name, f"the value of {name}")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_file_is_without_a_problem_and_runs(file: Path) -> None:
    assert check(file) == []
    agent = _offline(load(file))
    text, output = ANSWERS.get(agent.name, ("Fine.", "Fine."))
    assert prepare(agent, INPUTS.get(agent.name, {}))
    result = run_in_process(
        agent,
        inputs=INPUTS.get(agent.name, {}),
        model=[says(text)],
        tools=TOOLS.get(agent.name, []),
    )
    assert result.output == output


def test_the_librarian_looks_a_book_up() -> None:
    model = [asks(call("find_books", topic="bees")), says(ANSWERS["librarian"][0])]
    agent = load(write_agent_file.EXAMPLES / "librarian.prompty")
    result = run_in_process(agent, inputs=INPUTS["librarian"], model=model, tools=[find_books])
    assert "Keeping bees" in [message.text for message in result.messages]


def test_the_files_show_every_key() -> None:
    shown = {key for file in [*FILES, *PROVIDERS] for key in _shown(load(file))}
    documented = {
        f"{model.__name__}.{key}"
        for section in write_agent_file.SECTIONS
        for model in section.models
        for key in write_agent_file.keys(model)
    }
    assert documented - shown - FOR_OTHERS == set(), "show these keys in one of docs/agent_files"


@pytest.mark.parametrize("file", PROVIDERS, ids=lambda file: file.stem)
async def test_the_file_of_each_provider_runs(file: Path, stage: Stage, scripted: Scripted) -> None:
    """Against a server on loopback in the place of the provider's, which is sent the key that the
    file names.
    """
    assert check(file) == []
    served = scripted([says("Fine.")])
    agent = load(file, defer_environment=True)
    assert agent.model is not None
    endpoint = served.anthropic_endpoint if file.stem == "anthropic" else served.openai_endpoint
    connection = (agent.model.connection or Connection(kind="anonymous")).model_copy(
        update={"endpoint": endpoint}
    )
    agent = agent.model_copy(
        update={"model": agent.model.model_copy(update={"connection": connection})}
    )
    async with stage.worker([]):
        run = await start_run(
            stage.client, agent, {"question": "Well?"}, task_queue=stage.task_queue
        )
        assert (await run.result()).output == "Fine."
    (request,) = served.requests
    assert request.body["model"] == agent.model.id
    if key := KEYS.get(file.stem):
        sent = request.headers.get("api-key") or request.headers["authorization"].removeprefix(
            "Bearer "
        )
        assert sent == f"the value of {key}"


def _shown(node: Node) -> Iterator[str]:
    """The keys that the file sets, with the type of what they stand in."""
    type_name = "Agent" if isinstance(node, Agent) else type(node).__name__
    for name in node.model_fields_set & type(node).model_fields.keys():
        yield f"{type_name}.{type(node).model_fields[name].alias or name}"
        value = getattr(node, name)
        children = (
            value.values()
            if isinstance(value, Mapping)
            else value
            if isinstance(value, list)
            else [value]
        )
        yield from (key for child in children if isinstance(child, Node) for key in _shown(child))


def _offline(agent: Agent) -> Agent:
    """Without the tools of servers that are not there."""
    return agent.model_copy(
        update={"tools": [tool for tool in agent.tools or [] if tool.kind != "mcp"]}
    )
