"""Declared properties as JSON Schema, for tool parameters and structured outputs (§7.1).

The requirements of strict schemas: https://platform.openai.com/docs/guides/structured-outputs
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from .declared_tools import Property
from .json_types import JsonObject

Schema = JsonObject

_TYPES = {
    "string": "string",
    "integer": "integer",
    "float": "number",
    "boolean": "boolean",
    "array": "array",
    "object": "object",
    "thread": "array",
    "image": "string",
    "file": "string",
    "audio": "string",
}


class SchemaRules(NamedTuple):
    """The rules of a schema for every object in it, beyond the declaration."""

    requires_all: bool = False
    """Every property is listed in `required`."""
    nullable_optionals: bool = False
    """A property that is not required may be null."""
    is_closed: bool = False
    """`additionalProperties: false`."""
    has_defaults: bool = False
    """`default` holds the meaning of an absent property."""
    is_answer: bool = False
    """It has only the keywords that APIs accept for an answer: `anyOf` for every union, and a list
    of entries, `{key, value}`, for an object whose keys are not declared."""


PLAIN = SchemaRules()
OFFERED = SchemaRules(has_defaults=True)
"""For a function offered to a model."""
CLOSED = SchemaRules(is_closed=True, is_answer=True)
STRICT = SchemaRules(requires_all=True, nullable_optionals=True, is_closed=True)
STRICT_ANSWER = STRICT._replace(is_answer=True)
LENIENT = SchemaRules(nullable_optionals=True)
"""For checking a value written by any of the other rules."""

ANSWER = "answer"
"""The only key of the object that wraps an answer other than an object with declared members."""


def is_bare(outputs: Sequence[Property]) -> bool:
    """Return whether the outputs are one property without a name: the answer itself, of any
    kind.
    """
    return len(outputs) == 1 and not outputs[0].name


def answer_schema(outputs: Sequence[Property], rules: SchemaRules = PLAIN) -> Schema:
    """Return the schema of the model's answer. Raises ValueError for a union without
    alternatives.
    """
    if is_bare(outputs):
        outputs = [outputs[0].model_copy(update={"name": ANSWER, "required": True})]
    return object_schema(outputs, rules)


def object_schema(properties: Sequence[Property], rules: SchemaRules = PLAIN) -> Schema:
    """Return the schema of an object with these properties. Raises ValueError for a union without
    alternatives.
    """
    schema: Schema = {
        "type": "object",
        "properties": {prop.name: _member(prop, rules) for prop in properties},
    }
    required = [prop.name for prop in properties if prop.required or rules.requires_all]
    if required:
        schema["required"] = required
    if rules.is_closed:
        schema["additionalProperties"] = False
    return schema


def _member(prop: Property, rules: SchemaRules) -> Schema:
    is_optional = rules.nullable_optionals and not prop.required
    return _schema(prop, rules, nullable=prop.nullable or is_optional)


def _schema(prop: Property, rules: SchemaRules, *, nullable: bool) -> Schema:
    schema = _union(prop, rules) if prop.kind == "union" else _schema_of_type(prop, rules)
    if prop.description:
        schema["description"] = prop.description
    if rules.has_defaults and prop.default is not None:
        schema["default"] = prop.default
    if prop.enum_values:
        schema["enum"] = list(prop.enum_values)
    return _with_null(schema) if nullable else schema


def _schema_of_type(prop: Property, rules: SchemaRules) -> Schema:
    if prop.kind == "object" and prop.properties:
        return object_schema(prop.properties, rules)
    if prop.kind == "object" and prop.values is not None:
        return _dictionary(prop.values, rules)
    schema: Schema = {"type": _TYPES[prop.kind]}
    if prop.kind == "object" and rules.is_closed:
        schema["additionalProperties"] = False
    if prop.kind == "array" and prop.items is not None:
        schema["items"] = _schema(prop.items, rules, nullable=prop.items.nullable)
    return schema


def _dictionary(values: Property, rules: SchemaRules) -> Schema:
    if not rules.is_answer:
        return {
            "type": "object",
            "additionalProperties": _schema(values, rules, nullable=values.nullable),
        }
    entry = [
        Property(name="key", required=True),
        values.model_copy(update={"name": "value", "required": True}),
    ]
    return {"type": "array", "items": object_schema(entry, rules)}


def _union(prop: Property, rules: SchemaRules) -> Schema:
    keyword, alternatives, other = "oneOf", prop.one_of, prop.any_of
    if not alternatives:
        keyword, alternatives, other = "anyOf", prop.any_of, None
    if not alternatives or other:
        raise ValueError(f"Union property {prop.name!r} needs exactly one non-empty oneOf or anyOf")
    if rules.is_answer:
        keyword = "anyOf"
    return {keyword: [_schema(each, rules, nullable=each.nullable) for each in alternatives]}


def _with_null(schema: Schema) -> Schema:
    for keyword in ("oneOf", "anyOf"):
        if keyword in schema:
            schema[keyword].append({"type": "null"})
    if "type" in schema:
        schema["type"] = [schema["type"], "null"]
    if "enum" in schema and None not in schema["enum"]:
        schema["enum"].append(None)
    return schema


def without_properties(schema: Schema, names: frozenset[str]) -> Schema:
    """Return a schema of `type: object` without these properties."""
    if not names:
        return schema
    kept = schema | {
        "properties": {k: v for k, v in schema.get("properties", {}).items() if k not in names}
    }
    required = [name for name in kept.pop("required", []) if name not in names]
    return kept | {"required": required} if required else kept


_ALTERNATIVES = ("anyOf", "oneOf", "allOf")
_REFUSED_AT_ROOT = (*_ALTERNATIVES, "$ref", "enum", "const", "not", "if", "then", "else")


def without_alternatives(schema: Schema) -> Schema:
    """Return a schema of `type: object` without alternatives and references at its root, which APIs
    refuse.

    It has the properties of all alternatives, and requires those that each of them requires; the
    description lists them.
    """
    if schema.get("type") == "object" and not any(key in schema for key in _REFUSED_AT_ROOT):
        return schema if "properties" in schema else {**schema, "properties": {}}
    properties, required, notes = _fold(schema, schema, 0)
    kept = {
        key: value
        for key, value in schema.items()
        if key not in (*_REFUSED_AT_ROOT, "required", "description")
    }
    described = " ".join(filter(None, [schema.get("description"), *notes]))
    return {
        **kept,
        "type": "object",
        "properties": properties,
        **({"required": required} if required else {}),
        **({"description": described} if described else {}),
    }


def _fold(schema: Schema, root: Schema, depth: int) -> tuple[Schema, list[str], list[str]]:
    """Return the properties, the required ones and the notes of a schema and of all its
    subschemas.
    """
    if depth > _MAX_FOLDS:
        return {}, [], []
    schema = (
        {**_resolve(schema["$ref"], root), **schema}
        if isinstance(schema.get("$ref"), str)
        else schema
    )
    properties = dict(schema.get("properties") or {})
    required = list(schema.get("required") or [])
    notes: list[str] = []
    for keyword in _ALTERNATIVES:
        folded = [
            _fold(each, root, depth + 1)
            for each in schema.get(keyword) or ()
            if isinstance(each, dict)
        ]
        for each, _, more in folded:
            properties = {**each, **properties}
            notes += more
        needs = [names for _, names, _ in folded]
        if keyword == "allOf":
            required += [name for names in needs for name in names]
        elif needs:
            required += [name for name in needs[0] if all(name in names for names in needs)]
            if any(needs) and any(names != needs[0] for names in needs):
                listed = " or ".join(f"({', '.join(names)})" for names in needs if names)
                notes.append(f"Give one of these groups of properties: {listed}.")
    return properties, list(dict.fromkeys(required)), notes


_MAX_FOLDS = 8


def _resolve(reference: str, root: Schema) -> Schema:
    """Return the target of a reference within the schema; {} for any other."""
    found: Any = root
    for step in (
        reference.removeprefix("#").strip("/").split("/") if reference.startswith("#/") else ()
    ):
        found = (
            found.get(step.replace("~1", "/").replace("~0", "~"))
            if isinstance(found, dict)
            else None
        )
    return found if isinstance(found, dict) and found is not root else {}


def value_digest(plain: Any) -> str:
    """Return a digest of a JSON value, such as a schema or a default."""
    return sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:32]
