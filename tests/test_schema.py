"""§7.1: properties as JSON Schema, plain and strict."""

from __future__ import annotations

import pytest

from perdure.declared_tools import Property
from perdure.json_types import JsonObject
from perdure.schema import PLAIN, STRICT, SchemaRules, object_schema

STRING = {"type": "string"}


def schema(*properties: JsonObject, rules: SchemaRules = PLAIN) -> JsonObject:
    return object_schema([Property.model_validate(prop) for prop in properties], rules)


@pytest.mark.parametrize(
    ("kind", "type_"),
    [
        ("string", "string"),
        ("integer", "integer"),
        ("float", "number"),
        ("boolean", "boolean"),
        ("array", "array"),
        ("object", "object"),
        ("image", "string"),
        ("thread", "array"),
    ],
)
def test_a_kind_is_a_type_and_never_an_empty_one(kind: str, type_: str) -> None:
    assert schema({"name": "a", "kind": kind})["properties"]["a"] == {"type": type_}


@pytest.mark.parametrize("keyword", ["oneOf", "anyOf"])
def test_a_union_is_its_keyword_and_null_is_one_more_alternative(keyword: str) -> None:
    union = {"name": "a", "kind": "union", keyword: [{"kind": "string"}, {"kind": "integer"}]}
    assert schema(union)["properties"]["a"] == {keyword: [STRING, {"type": "integer"}]}
    nullable = schema({**union, "nullable": True})["properties"]["a"]
    assert nullable == {keyword: [STRING, {"type": "integer"}, {"type": "null"}]}


@pytest.mark.parametrize(
    "union",
    [
        {},
        {"oneOf": [], "anyOf": []},
        {"oneOf": [{"kind": "string"}], "anyOf": [{"kind": "string"}]},
    ],
)
def test_a_union_needs_exactly_one_of_its_keywords(union: JsonObject) -> None:
    with pytest.raises(ValueError, match="exactly one non-empty oneOf or anyOf"):
        schema({"name": "a", "kind": "union", **union})


def test_strict_requires_all_closes_all_and_makes_optionals_nullable() -> None:
    nested = {
        "name": "b",
        "kind": "object",
        "required": True,
        "properties": [{"name": "c", "kind": "integer"}],
    }
    optional = {"name": "a", "enumValues": ["x"]}
    assert schema(optional, nested, rules=STRICT) == {
        "type": "object",
        "properties": {
            "a": {"type": ["string", "null"], "enum": ["x", None]},
            "b": {
                "type": "object",
                "properties": {"c": {"type": ["integer", "null"]}},
                "required": ["c"],
                "additionalProperties": False,
            },
        },
        "required": ["a", "b"],
        "additionalProperties": False,
    }


def test_strict_reaches_items_alternatives_and_bare_objects() -> None:
    inner = {"kind": "object", "properties": [{"name": "x", "required": True}]}
    listed = {"name": "a", "kind": "array", "required": True, "items": inner}
    union = {"name": "b", "kind": "union", "required": True, "oneOf": [inner, {"kind": "string"}]}
    bare = {"name": "c", "kind": "object", "required": True}
    closed = {
        "type": "object",
        "properties": {"x": STRING},
        "required": ["x"],
        "additionalProperties": False,
    }
    assert schema(listed, union, bare, rules=STRICT)["properties"] == {
        "a": {"type": "array", "items": closed},
        "b": {"oneOf": [closed, STRING]},
        "c": {"type": "object", "additionalProperties": False},
    }
