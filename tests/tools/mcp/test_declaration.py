"""What a file may say of an MCP server."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.agents import Agent
from perdure.declared_tools import McpTool
from perdure.json_types import JsonObject
from perdure.tools.mcp.declaration import problems_of, server_of

URL = {"connection": {"kind": "anonymous", "endpoint": "https://host/mcp"}}


def tool(fields: JsonObject) -> Any:
    agent = Agent.model_validate(
        {"name": "a", "model": {"id": "m"}, "tools": [{"name": "t", "kind": "mcp", **fields}]}
    )
    [declared] = agent.tools or []
    assert isinstance(declared, McpTool)
    return declared


@pytest.mark.parametrize(
    "fields",
    [
        URL,
        {"connection": {"endpoint": "${env:MCP_URL}", "apiKey": "${env:KEY}"}},
        {"connection": {"kind": "remote", "endpoint": "http://localhost:8080/mcp", "name": "n"}},
        {
            **URL,
            "options": {"headers": {"X-Key": "${env:KEY}", "X-Number": 5}, "discoveryTimeout": 2.5},
        },
        {
            "options": {
                "command": "uvx",
                "args": ["server", "--port", 80],
                "env": {"A": "b"},
                "cwd": "/srv",
            }
        },
    ],
)
def test_declarations_that_are_right(fields: JsonObject) -> None:
    assert list(problems_of(tool(fields))) == []


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (
            {},
            "expected either connection.endpoint (streamable HTTP) or options.command (stdio), or "
            "connection: "
            "{kind: reference, name: …}; it has neither",
        ),
        ({**URL, "options": {"command": "uvx"}}, "it has both"),
        (
            {"connection": {"kind": "reference"}},
            "connection.kind is 'reference': expected the name of a server that the worker's owner",
        ),
        (
            {"connection": {"kind": "reference", "name": "a"}, "options": {"command": "sh"}},
            "options.command is unknown: expected some of discoveryTimeout",
        ),
        (
            {"connection": {"kind": "reference", "name": "a", "endpoint": "https://b"}},
            "owner has registered, and no endpoint",
        ),
        (
            {"options": {"command": "uvx", "comand": "uvx"}},
            "options.comand is unknown (did you mean 'command'?): expected some of",
        ),
        (
            {"connection": {"endpoint": "host/mcp"}},
            "connection.endpoint is 'host/mcp': expected a URL such as https",
        ),
        (
            {"connection": {"endpoint": "file:///etc/passwd"}},
            "expected a URL such as https://host/mcp",
        ),
        (
            {"connection": {"endpoint": "https://host:99999/"}},
            "expected a URL such as https://host/mcp",
        ),
        (
            {"connection": {"kind": "foundry", "endpoint": "https://host"}},
            "connection.kind is 'foundry': expected one of key",
        ),
        (
            {**URL, "options": {"args": ["x"]}},
            "options.args is unknown: expected some of discoveryTimeout, headers",
        ),
        (
            {**URL, "options": {"headers": ["x"]}},
            "options.headers: Input should be a valid dictionary",
        ),
        (
            {**URL, "options": {"headers": {"X Y": "z"}}},
            "options.headers.X Y: String should match pattern",
        ),
        (
            {**URL, "options": {"headers": {"X": "a\r\nY: b"}}},
            "options.headers.X: ",
        ),
        (
            {**URL, "options": {"discoveryTimeout": 0}},
            "options.discoveryTimeout: Input should be greater than 0",
        ),
        (
            {**URL, "options": {"discoveryTimeout": "9"}},
            "options.discoveryTimeout: Input should be a valid",
        ),
        ({"options": {"command": ["uvx"]}}, "options.command: Input should be a valid string"),
        (
            {"options": {"command": "uvx", "args": "server"}},
            "options.args: Input should be a valid list",
        ),
        (
            {"options": {"command": "uvx", "env": {"A": ["b"]}}},
            "options.env.A: Input should be a valid",
        ),
        (
            {"options": {"command": "uvx", "headers": {"A": "b"}}},
            "options.headers is unknown: expected some of discoveryTimeout, command",
        ),
    ],
)
def test_declarations_that_are_wrong(fields: JsonObject, problem: str) -> None:
    [found] = problems_of(tool(fields))
    assert problem in found


def test_equal_servers_are_those_with_equal_credentials() -> None:
    def server(key: str, **headers: str) -> Any:
        connection = {"kind": "key", "endpoint": "https://host/mcp", "apiKey": key}
        return server_of(tool({"connection": connection, "options": {"headers": headers}}))

    assert server("one") == server("one")
    assert server("one") != server("two")
    assert server("one").headers == (("authorization", "Bearer one"),)
    assert server("one", Authorization="Basic x").headers == (("authorization", "Basic x"),)


def test_what_is_told_of_a_server_has_no_secret() -> None:
    connection = {
        "kind": "key",
        "endpoint": "https://user:pw@host:8443/mcp?token=abc",
        "apiKey": "key",
    }
    http = server_of(tool({"connection": connection}))
    process = server_of(
        tool({"options": {"command": "uvx", "args": ["--key", "abc"], "env": {"A": "abc"}}})
    )
    assert (str(http), repr(process)) == ("https://host:8443/mcp", "Server(uvx …)")


@pytest.mark.parametrize(
    ("mode", "problem"),
    [
        (
            {"kind": "specify"},
            "approvalMode.kind is 'specify': expected alwaysRequireApprovalTools or never",
        ),
        (
            {"kind": "specify", "alwaysRequireApprovalTool": ["pay"]},
            "approvalMode.alwaysRequireApprovalTool is unknown (did you mean "
            "'alwaysRequireApprovalTools'?)",
        ),
    ],
)
def test_a_misspelt_approval_is_an_error(mode: JsonObject, problem: str) -> None:
    declared = {"name": "shop", "kind": "mcp", "connection": {"endpoint": "http://127.0.0.1:1/mcp"}}
    [tool] = Agent.model_validate({"tools": [{**declared, "approvalMode": mode}]}).tools or []
    assert any(found.startswith(problem) for found in problems_of(tool)), list(problems_of(tool))
