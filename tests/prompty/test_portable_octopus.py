"""The names by which Octopus calls credentials and MCP servers, and references to credentials in
files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure.agents import Agent
from perdure.errors import LoadError
from perdure.json_types import JsonObject
from perdure.prompty.check.check import check
from perdure.prompty.load import load_dict
from perdure.prompty.portable import agent_to_dict, credentials_in, portable, resolve_environment
from perdure.redaction import redact, redactor

CRM = {"name": "crm", "baseUrl": "https://crm.example/mcp"}


def with_servers(*servers: Any, **more: Any) -> Agent:
    return load_dict({"model": "m", "metadata": {"octopus": {"mcpServers": list(servers)}}, **more})


def tools(agent: Agent) -> list[JsonObject]:
    return [tool.model_dump(by_alias=True, exclude_none=True) for tool in agent.tools or []]


def test_a_server_with_everything() -> None:
    server = {
        **CRM,
        "credentialId": 42,
        "timeoutMs": 90_000,
        "enabled": True,
        "toolFilter": ["find", "add"],
    }
    assert tools(with_servers(server)) == [
        {
            "name": "crm",
            "kind": "mcp",
            "connection": {
                "kind": "key",
                "endpoint": "https://crm.example/mcp",
                "apiKey": "${credential:42}",
            },
            "allowedTools": ["find", "add"],
            "options": {"discoveryTimeout": 50.0},
            "perdure": {"timeout": 90.0},
        }
    ]


def test_a_server_with_the_least_and_those_that_are_not_enabled() -> None:
    [tool] = tools(with_servers(CRM, {**CRM, "name": "off", "enabled": False}))
    assert tool == {
        "name": "crm",
        "kind": "mcp",
        "connection": {"kind": "anonymous", "endpoint": CRM["baseUrl"]},
    }
    assert tools(with_servers({**CRM, "toolFilter": "find, add"}))[0]["allowedTools"] == [
        "find",
        "add",
    ]


@pytest.mark.parametrize(
    "server",
    [
        "crm",
        {"name": "crm"},
        {**CRM, "baseurl": "x"},
        {**CRM, "timeoutMs": "soon"},
        {**CRM, "enabled": "no"},
        {**CRM, "toolFilter": 7},
    ],
)
def test_what_is_wrong_with_servers(server: Any) -> None:
    with pytest.raises(
        LoadError, match=r"metadata.octopus.mcpServers\[0\]: expected a map of name,"
    ):
        with_servers(server)


def test_what_is_wrong_with_the_id_of_a_credential() -> None:
    with pytest.raises(LoadError, match=r"mcpServers\[0\].credentialId: expected the id of a cred"):
        with_servers({**CRM, "credentialId": True})


def test_the_id_of_a_credential_in_a_connection() -> None:
    connection = {"kind": "key", "endpoint": "https://m.example", "credentialId": 7}
    agent = load_dict({"model": {"id": "m", "connection": connection}})
    assert agent.model
    assert agent.model.connection
    assert agent.model.connection.api_key == "${credential:7}"
    with pytest.raises(LoadError, match="is set together with `apiKey`: expected one of them"):
        load_dict({"model": {"id": "m", "connection": {**connection, "apiKey": "${env:KEY}"}}})


SECRET = "a secret, even to its friends"
PLACES: JsonObject = {
    "name": "placed",
    "description": "${credential:not here}",
    "model": {"id": "m", "connection": {"kind": "key", "apiKey": "${credential:model}"}},
    "tools": [
        {
            "name": "web",
            "kind": "mcp",
            "connection": {"kind": "key", "endpoint": "https://web.example"},
            "options": {
                "headers": {"X-Team": "${credential:team}", "X-Key": "${credential:model}"}
            },
        },
        {
            "name": "own",
            "kind": "own",
            "connection": {"kind": "oauth", "clientSecret": "${credential:own id}"},
        },
        {"name": "plain", "kind": "function", "description": "${credential:not here}"},
    ],
}


def test_where_credentials_are_named() -> None:
    agent = portable(load_dict(PLACES))
    found = {"": {"model"}, "web": {"team", "model"}, "own": {"own id"}}
    assert credentials_in(agent) == found
    assert credentials_in(resolve_environment(agent)) == found
    travelled = portable(resolve_environment(agent, {"model": SECRET}))
    assert travelled.model_dump() == agent.model_dump()


def test_only_what_is_given_is_put_in_and_no_more_is_said() -> None:
    agent = resolve_environment(portable(load_dict(PLACES)), {"model": SECRET, "not here": SECRET})
    assert credentials_in(agent) == {"web": {"team"}, "own": {"own id"}}
    assert agent.model
    assert agent.model.connection
    assert agent.model.connection.api_key == SECRET
    assert agent.description == "${credential:not here}"
    assert redactor().text(f"<{SECRET}>") == "<${credential:model}>"
    assert redact("it is ${credential:team}", agent) == "it is ${credential:team}"
    assert SECRET not in repr(agent_to_dict(agent))


def test_a_file_is_told_of_a_reference_that_nothing_resolves(tmp_path: Path) -> None:
    file = tmp_path / "a.prompty"
    file.write_text(
        "---\nname: a\nmodel: m\ndescription: ${credential:x}\nmetadata:\n  k: a ${credential:y} "
        "b\n---\nsystem:\nHi"
    )
    texts = [problem.message for problem in check(file)]
    assert texts == [
        "${credential:x} stays as it is: credentials are for connections and options",
        "${credential:y} stays as it is: only a whole string is a reference",
    ]
