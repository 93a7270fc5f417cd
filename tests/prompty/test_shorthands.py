"""§2.2 to §2.8: the properties of an asset, their shorthands, and what is wrong with them."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.errors import LoadError
from perdure.json_types import JsonObject
from perdure.prompty.load import load, load_dict
from perdure.prompty.portable import agent_to_dict

from .conftest import WriteFile

SAME: JsonObject = {"the same": True}
"""Stands for a form that is canonical already."""


def canonical(data: JsonObject) -> JsonObject:
    return agent_to_dict(load_dict(data), include_secrets=True)


@pytest.mark.parametrize(
    "connection",
    [
        {"kind": "key", "endpoint": "https://e", "apiKey": "k"},
        {"kind": "key"},
        {"kind": "reference", "name": "n", "target": "t"},
        {"kind": "remote", "name": "n", "endpoint": "https://e"},
        {
            "kind": "anonymous",
            "endpoint": "https://e",
            "authenticationMode": "user",
            "usageDescription": "u",
        },
        {"kind": "foundry", "endpoint": "https://e", "name": "n", "connectionType": "c"},
        {
            "kind": "oauth",
            "endpoint": "https://e",
            "clientId": "i",
            "clientSecret": "s",
            "tokenUrl": "https://t",
            "scopes": ["a", "b"],
        },
        {"kind": "key", "apiVersion": "2024-10-01"},
    ],
    ids=lambda connection: (
        "§2.4 " + " ".join(connection.values() if len(connection) == 1 else connection)
    ),
)
def test_connections(connection: JsonObject) -> None:
    assert (
        canonical({"model": {"id": "m", "connection": connection}})["model"]["connection"]
        == connection
    )


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param("Jane", {"kind": "string", "default": "Jane"}, id="§18-3 text"),
        pytest.param(5, {"kind": "integer", "default": 5}, id="§2.6 whole number"),
        pytest.param(0, {"kind": "integer", "default": 0}, id="§2.6 zero"),
        pytest.param(1.5, {"kind": "float", "default": 1.5}, id="§2.6 number"),
        pytest.param(False, {"kind": "boolean", "default": False}, id="§2.6 boolean"),
        pytest.param(["a"], {"kind": "array", "default": ["a"]}, id="§2.6 list"),
        pytest.param({"a": 1}, {"kind": "object", "default": {"a": 1}}, id="§2.6 map"),
        pytest.param({"kind": "image"}, SAME, id="§2.6 a map with kind is a property"),
        pytest.param(None, {"kind": "string"}, id="§2.6 nothing"),
        pytest.param(
            {"kind": "array", "items": {"kind": "object", "properties": {"a": {"kind": "string"}}}},
            {
                "kind": "array",
                "items": {
                    "name": "",
                    "kind": "object",
                    "properties": [{"name": "a", "kind": "string"}],
                },
            },
            id="§2.6 nested, in map form",
        ),
        pytest.param(
            {"kind": "union", "nullable": True, "oneOf": [{"kind": "string"}, {"kind": "integer"}]},
            {
                "kind": "union",
                "nullable": True,
                "oneOf": [{"name": "", "kind": "string"}, {"name": "", "kind": "integer"}],
            },
            id="§2.6 union",
        ),
        pytest.param(
            {
                "kind": "string",
                "required": True,
                "example": "e",
                "enumValues": ["a", "b"],
                "description": "d",
            },
            SAME,
            id="§2.6 all fields",
        ),
    ],
)
def test_inputs_in_map_form(written: Any, expected: JsonObject) -> None:
    expected = written if expected is SAME else expected
    assert canonical({"inputs": {"x": written}})["inputs"] == [{"name": "x", **expected}]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param(
            {"kind": "function", "strict": True},
            SAME,
            id="§2.8 function",
        ),
        pytest.param({}, {"kind": "function"}, id="§2.8 function is the default"),
        pytest.param(
            {"parameters": {"a": {"kind": "string"}}},
            {"kind": "function", "parameters": [{"name": "a", "kind": "string"}]},
            id="§2.8 parameters in map form",
        ),
        pytest.param(
            {
                "kind": "mcp",
                "serverName": "s",
                "serverDescription": "d",
                "connection": {"kind": "reference", "name": "n"},
                "allowedTools": ["a"],
                "approvalMode": {"kind": "specify", "alwaysRequireApprovalTools": ["a"]},
            },
            SAME,
            id="§2.8 mcp",
        ),
        pytest.param(
            {"kind": "mcp", "approvalMode": "never"},
            {"kind": "mcp", "approvalMode": {"kind": "never"}},
            id="§2.8 approval as text",
        ),
        pytest.param(
            {"kind": "openapi", "specification": "./weather.json"},
            SAME,
            id="§2.8 a specification stays as written",
        ),
        pytest.param(
            {"kind": "prompty", "path": "./child.prompty"},
            {"kind": "prompty", "path": "./child.prompty", "mode": "single"},
            id="§9.6 prompty",
        ),
        pytest.param(
            {"kind": "my_provider", "connection": {"kind": "key"}, "options": {"a": 1}, "own": [1]},
            SAME,
            id="§2.8 any other kind is kept",
        ),
        pytest.param(
            {"bindings": {"unit": "preferred", "n": {"input": "m"}}},
            {"kind": "function", "bindings": {"unit": {"input": "preferred"}, "n": {"input": "m"}}},
            id="§2.8 bindings",
        ),
        pytest.param(
            {"bindings": [{"name": "unit", "input": "preferred"}]},
            {"kind": "function", "bindings": {"unit": {"input": "preferred"}}},
            id="§2.8 bindings as a list",
        ),
    ],
)
@pytest.mark.parametrize("form", ["map", "list"])
def test_tools(written: JsonObject, expected: JsonObject, form: str) -> None:
    expected = written if expected is SAME else expected
    tools = {"t": written} if form == "map" else [{"name": "t", **written}]
    assert canonical({"tools": tools})["tools"] == [{"name": "t", **expected}]


@pytest.mark.parametrize(
    ("yaml", "message"),
    [
        ("name: 5", ":2: name: expected a string, got 5"),
        ("template: jinja2", ":2: template: Invalid template format: expected a map"),
        ("metadata: text", ":2: metadata: expected a map, got 'text'"),
        (
            "model:\n  connection:\n    kind: keys",
            ":4: model.connection.kind: expected 'key', 'reference'",
        ),
        ("model:\n  connection:\n    kind: keys", "got 'keys' (did you mean 'key'?)"),
        (
            "model:\n  connection:\n    apiKey: 12345",
            ":4: model.connection.apiKey: expected a string",
        ),
        (
            "model:\n  options:\n    seed: 1.5",
            ":4: model.options.seed: expected a whole number, got 1.5",
        ),
        (
            "model:\n  options:\n    topP: high",
            ":4: model.options.topP: expected a number, got 'high'",
        ),
        (
            "model:\n  options:\n    stopSequences: stop",
            ":4: model.options.stopSequences: expected a list, got 'stop'",
        ),
        ("inputs: text", ":2: inputs: expected a list, got 'text'"),
        ("inputs:\n  - first", ":3: inputs[0]: expected a map, got 'first'"),
        ("inputs:\n  - kind: string", ":3: inputs[0].name: is missing"),
        ("inputs:\n  - name: a\n  - name: a", ":4: inputs[1].name: the name 'a' is used twice"),
        (
            "inputs:\n  x:\n    kind: array\n    items:\n      kind: text",
            ":6: inputs.x.items.kind: expected 'string'",
        ),
        ("tools:\n  p:\n    kind: prompty", ":3: tools.p.path: is missing"),
        (
            "tools:\n  m:\n    kind: mcp\n    approvalMode: maybe",
            ":5: tools.m.approvalMode.kind: expected 'always'",
        ),
        (
            "tools:\n  f:\n    parameters:\n      p:\n        kind: x",
            ":6: tools.f.parameters.p.kind: expected 'string'",
        ),
        (
            "tools:\n  f:\n    bindings:\n      p: 5",
            ":5: tools.f.bindings.p: expected a map, got 5",
        ),
        ("tools:\n  f:\n    bindings:\n      p: {}", ":5: tools.f.bindings.p.input: is missing"),
    ],
)
def test_wrong_values_are_named_as_the_author_wrote_them(
    write: WriteFile, yaml: str, message: str
) -> None:
    """§4: file, field and line."""
    file = write(f"---\n{yaml}\n---\n")
    with pytest.raises(LoadError) as caught:
        load(file)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(file))


def test_no_error_shows_a_secret(write: WriteFile) -> None:
    with pytest.raises(LoadError) as caught:
        load(write("---\nmodel:\n  connection:\n    apiKey: [sk-secret]\n---\n"))
    assert "sk-secret" not in str(caught.value)
