"""The entries of `metadata.perdure.agents`, and what the environment adds to them for an agent of
KAOS.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure.agents import Agent
from perdure.client.run_input import run_input
from perdure.declared_tools import CustomTool, PromptyTool
from perdure.errors import ConfigurationError, LoadError
from perdure.json_types import JsonObject
from perdure.settings.delegates import as_started, is_delegate, with_delegates

AT = "http://researcher:8000"


def chief(*agents: Any, **metadata: Any) -> Agent:
    return Agent(metadata={"perdure": {"agents": list(agents)}, **metadata})


def tools_of(agent: Agent) -> dict[str, CustomTool | PromptyTool]:
    return {
        tool.name: tool for tool in agent.tools or () if isinstance(tool, CustomTool | PromptyTool)
    }


def test_an_entry_is_a_file_or_an_address() -> None:
    here = {"name": "clerk", "path": "clerk.prompty", "timeout": 5}
    there = {
        "name": "researcher",
        "url": AT,
        "protocol": "a2a",
        "model": "r2",
        "context": 4,
        "retries": 1,
    }
    tools = tools_of(with_delegates(chief(here, there)))
    clerk, researcher = tools["delegate_to_clerk"], tools["delegate_to_researcher"]
    assert isinstance(clerk, PromptyTool)
    assert clerk.path == "clerk.prompty"
    assert clerk.perdure is not None
    assert (clerk.perdure.timeout, clerk.perdure.context) == (5, None)
    assert isinstance(researcher, CustomTool)
    assert (researcher.kind, researcher.options) == ("delegate", {"protocol": "a2a", "model": "r2"})
    assert researcher.connection is not None
    assert researcher.connection.endpoint == AT
    assert researcher.perdure is not None
    assert (researcher.perdure.context, researcher.perdure.retries) == (4, 1)


def test_a_recorded_agent_is_not_expanded_once_more() -> None:
    once = with_delegates(
        chief({"name": "clerk", "path": "clerk.prompty"}, {"name": "researcher", "url": AT})
    )
    assert with_delegates(once) is once
    assert all(is_delegate(tool) for tool in once.tools or ())


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"name": "r"}, "expected either path .* or url; it has none"),
        ({"name": "r", "url": AT, "path": "r.prompty"}, "it has path and url"),
        (
            {"name": "r", "path": "r.prompty", "headers": {"a": "b"}},
            "headers is for a remote agent",
        ),
        (
            {"name": "r", "path": "r.prompty", "allowedHosts": ["x"]},
            "allowedHosts is for a remote agent",
        ),
        (
            {"name": "r", "url": AT, "protocol": "grpc"},
            "protocol: 'grpc': input should be 'auto', 'a2a' or 'openai'",
        ),
        (
            {"name": "r", "url": AT, "context": -1},
            "context: -1: input should be greater than or equal to 0",
        ),
        (
            {"name": "r", "url": AT, "contxt": 1},
            r"contxt: is unknown \(did you mean 'context'\?\)\. Expected name, path, url, ",
        ),
        ({"name": "my agent", "url": AT}, "expected a name of at most 52 letters"),
        ({"url": AT}, "expected a name of at most 52 letters"),
        ("r", r"expected \{name, path, description\}, or \{name, url, description\}"),
    ],
)
def test_a_wrong_entry(entry: Any, problem: str) -> None:
    with pytest.raises(LoadError, match=problem):
        with_delegates(chief(entry))


def test_a_name_that_is_taken() -> None:
    with pytest.raises(LoadError, match="there is a tool 'delegate_to_r' already"):
        with_delegates(chief({"name": "r", "url": AT}, {"name": "r", "path": "r.prompty"}))


def test_references_to_the_environment_travel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RESEARCHER", AT)
    monkeypatch.setenv("TEAM_TOKEN", "the-token-of-the-team")
    monkeypatch.delenv("RESEARCHER_KEY", raising=False)
    file = tmp_path / "chief.prompty"
    file.write_text(
        "---\nname: chief\nmodel: {id: m}\nmetadata:\n  perdure:\n    agents:\n"
        "      - {name: r, url: '${env:RESEARCHER}', apiKey: '${env:RESEARCHER_KEY}',"
        " headers: {X-Team: '${env:TEAM_TOKEN}'}}\n---\nuser:\nhi\n"
    )
    recorded = run_input(file)
    [tool] = recorded["agent"]["tools"]
    assert tool["connection"] == {
        "kind": "key",
        "endpoint": "${env:RESEARCHER}",
        "apiKey": "${env:RESEARCHER_KEY}",
    }
    assert tool["options"]["headers"] == {"X-Team": "${env:TEAM_TOKEN}"}
    assert "the-token-of-the-team" not in str(recorded)


def test_a_literal_key_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="is a secret itself"):
        run_input(
            chief({"name": "r", "url": AT, "apiKey": "sk-proj-abcdefghijklmnopqrstuvwx"}),
            messages=[],
        )


@pytest.mark.parametrize(
    ("metadata", "environment", "context"),
    [
        ({}, {}, None),
        ({"kaos": {}}, {}, 6),
        ({"kaos": None}, {"MEMORY_CONTEXT_LIMIT": "2"}, 2),
        ({"kaos": {"memory_context_limit": 3}}, {"MEMORY_CONTEXT_LIMIT": "2"}, 3),
    ],
)
def test_how_much_of_the_conversation_goes_along(
    metadata: JsonObject, environment: dict[str, str], context: int | None
) -> None:
    agent = chief({"name": "r", "url": AT}, {"name": "s", "url": AT, "context": 1}, **metadata)
    tools = tools_of(with_delegates(agent, environment))
    policies = [tools[f"delegate_to_{name}"].perdure for name in "rs"]
    assert [policy and policy.context for policy in policies] == [context, 1]


def test_the_environment_names_peers_and_servers() -> None:
    environment = {
        "PEER_AGENTS": "data-analyst, researcher",
        "PEER_AGENT_DATA_ANALYST_CARD_URL": "http://analyst:8000",
        "PEER_AGENT_RESEARCHER_CARD_URL": "http://elsewhere:8000",
        "MCP_SERVERS": "[echo,files]",
        "MCP_SERVER_echo_URL": "http://echo:8000",
        "MCP_SERVER_files_URL": "http://files:8000/mcp",
    }
    started = as_started(chief({"name": "researcher", "url": AT}, kaos={}), environment)
    found = {tool.name: tool.connection.endpoint for tool in started.tools or () if tool.connection}  # type: ignore[union-attr]
    assert found == {
        "echo": "http://echo:8000/mcp",
        "files": "http://files:8000/mcp",
        "delegate_to_researcher": AT,
        "delegate_to_data-analyst": "http://analyst:8000",
    }
    direct = {
        **environment,
        "AGENT_SUB_AGENTS": f"one:{AT}, two:http://two:8000",
        "MCP_SERVERS": "",
    }
    assert list(tools_of(as_started(Agent(metadata={"kaos": None}), direct))) == [
        "delegate_to_one",
        "delegate_to_two",
    ]
    assert as_started(Agent(), direct).tools is None


@pytest.mark.parametrize(
    ("environment", "problem"),
    [
        (
            {"PEER_AGENTS": "a-b"},
            "PEER_AGENT_A_B_CARD_URL is not set: expected a URL, because PEER_AGENTS names",
        ),
        ({"MCP_SERVERS": "echo"}, "MCP_SERVER_echo_URL is not set"),
        ({"AGENT_SUB_AGENTS": "r"}, "AGENT_SUB_AGENTS: 'r': expected NAME:URL"),
    ],
)
def test_a_variable_that_is_missing_or_wrong(environment: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        as_started(Agent(metadata={"kaos": {}}), environment)


def test_a_delegated_task_is_a_user_s_message() -> None:
    recorded = run_input(Agent(), messages=[{"role": "task-delegation", "content": "Find it."}])
    [message] = recorded["messages"]
    assert (message["role"], message["metadata"]) == ("user", {"sent_as": "task-delegation"})
