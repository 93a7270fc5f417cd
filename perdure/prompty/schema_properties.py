"""Reads what the first format wrote as JSON Schema: the parameters of tools, and the form of answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_KINDS = {"number": "float", "integer": "integer", "boolean": "boolean", "array": "array", "object": "object"}


def tool_of(tool: Any) -> Any:
    """The declaration of a function, from OpenAI's form of it; anything else as it is."""
    function = tool.get("function") if isinstance(tool, Mapping) else None
    if not isinstance(function, Mapping):
        return tool
    declared = {key: function[key] for key in ("name", "description", "strict") if key in function}
    return {"kind": "function", **declared, "parameters": _members(function.get("parameters"))}


def described_properties(response_format: Any) -> list[dict[str, Any]]:
    """The properties of the object that a `response_format` describes; [] when it describes none."""
    described = response_format.get("json_schema") if isinstance(response_format, Mapping) else None
    schema = described.get("schema") if isinstance(described, Mapping) else None
    return _members(schema)


def _members(schema: Any) -> list[dict[str, Any]]:
    members = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(members, Mapping):
        return []
    required = schema.get("required")
    names = required if isinstance(required, list) else []
    return [{"name": name, **_property(member), "required": name in names} for name, member in members.items()]


def _property(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, Mapping):
        return {"kind": "string"}
    kind = schema.get("type")
    types = kind if isinstance(kind, list) else [kind]
    named = next((each for each in types if isinstance(each, str) and each != "null"), "string")
    described: dict[str, Any] = {"kind": _KINDS.get(named, "string")}
    if "null" in types:
        described["nullable"] = True
    for key, name in (("description", "description"), ("enum", "enumValues"), ("default", "default")):
        if key in schema:
            described[name] = schema[key]
    if isinstance(schema.get("items"), Mapping):
        described["items"] = _property(schema["items"])
    if members := _members(schema):
        described["properties"] = members
    return described
