"""What the model is offered of a server's tools."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import types

from perdure.declared_tools import McpApprovalMode
from perdure.json_types import JsonObject
from perdure.tools.inventory import NAME
from perdure.tools.kind import ToolOfferError
from perdure.tools.mcp.offering import function_names, needs_approval, offerings

from .test_declaration import URL, tool


def listed(*names: str, **fields: Any) -> list[types.Tool]:
    return [
        types.Tool(**{"name": name, "input_schema": {"type": "object"}, **fields}) for name in names
    ]


@pytest.mark.parametrize(
    ("names", "functions"),
    [
        (["search", "get_1", "a-b"], ["search", "get_1", "a-b"]),
        (["a.b", "a_b", "a/b", "a b"], ["srv_a_b", "a_b", "srv_a_b_82badf67", "srv_a_b_7faae47c"]),
        (["größe"], ["gr__e"]),
        (["x" * 64, "x" * 65], ["x" * 64, "x" * 55 + "_dc05afb2"]),
        ([""], ["tool_1271cf25"]),
    ],
)
def test_names_become_function_names(names: list[str], functions: list[str]) -> None:
    assert [function_names(names, "srv")[name] for name in names] == functions


@given(st.lists(st.text(max_size=80), unique=True, max_size=30), st.text(min_size=1, max_size=70))
def test_any_names_become_different_function_names(names: list[str], server: str) -> None:
    chosen = function_names(names, server)
    assert all(NAME.fullmatch(function) for function in chosen.values())
    assert len(set(chosen.values())) == len(names)
    assert all(chosen[name] == name for name in names if NAME.fullmatch(name))


@pytest.mark.parametrize(
    ("mode", "asked"),
    [
        (None, ""),
        ({"kind": "never"}, ""),
        ({"kind": "always"}, "abc"),
        ({"kind": "specify"}, ""),
        ({"kind": "specify", "alwaysRequireApprovalTools": ["a"]}, "a"),
        ({"kind": "specify", "neverRequireApprovalTools": ["a"]}, "bc"),
        (
            {
                "kind": "specify",
                "alwaysRequireApprovalTools": ["a"],
                "neverRequireApprovalTools": ["a", "b"],
            },
            "ac",
        ),
    ],
)
def test_which_tools_need_an_approval(mode: JsonObject | None, asked: str) -> None:
    read = None if mode is None else McpApprovalMode.model_validate(mode)
    assert "".join(name for name in "abc" if needs_approval(read, name)) == asked


def test_only_allowed_tools_are_offered() -> None:
    made = offerings(tool({**URL, "allowedTools": ["b"]}), listed("a", "b", "c"))
    assert [offering.name for offering in made] == ["b"]
    assert offerings(tool({**URL, "allowedTools": []}), listed("a")) == []


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"allowedTools": ["b"]}, "allowedTools"),
        (
            {"approvalMode": {"kind": "specify", "alwaysRequireApprovalTools": ["b"]}},
            r"approvalMode\.alwaysRequireApprovalTools",
        ),
    ],
)
def test_tools_that_the_server_does_not_have(fields: JsonObject, place: str) -> None:
    with pytest.raises(
        ToolOfferError,
        match=f"^{place} names 'b', which MCP server 'hub' does not have; it has: a, c$",
    ):
        offerings(tool({**URL, "serverName": "hub", **fields}), listed("c", "a"))


@pytest.mark.parametrize(
    ("hints", "idempotent"),
    [
        ({}, False),
        ({"idempotent_hint": True}, True),
        ({"read_only_hint": True}, True),
        ({"read_only_hint": False, "destructive_hint": False}, False),
    ],
)
def test_what_may_be_repeated(hints: dict[str, bool], idempotent: bool) -> None:
    [made] = offerings(tool(URL), listed("a", annotations=types.ToolAnnotations(**hints)))
    assert (made.idempotent, made.details) == (idempotent, {"tool": "a", "idempotent": idempotent})


def test_schemas_as_the_model_is_told_them(caplog: pytest.LogCaptureFixture) -> None:
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "required": ["q"]}
    [made] = offerings(
        tool(URL), listed("a", input_schema=schema, title="A title", description=None)
    )
    assert made.parameters == {"type": "object", "properties": {}, "required": ["q"]}
    assert made.description == "A title"
    caplog.set_level(logging.WARNING)
    assert offerings(tool(URL), listed("a", input_schema={"type": "array"})) == []
    assert (
        "Tool 'a' of MCP server 't' is not offered: its arguments are not an object" in caplog.text
    )
