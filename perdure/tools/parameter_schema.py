"""The whole of what a function's parameter takes, which is more than the model is told, to notice that it changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import CoreSchema, PydanticSerializationError, to_jsonable_python

from .signature import MISSING, Parameter, signature_of

Function = Callable[..., Any]
Schema = Mapping[str, Any]

_ONLY_TELLS = frozenset({"title", "description", "examples"})
_BY_NAME = frozenset({"properties", "patternProperties", "$defs"})
_VALUES = frozenset({"default", "const", "enum"})
_IN_KINDS = frozenset({"type", "items", "properties", "required", "enum", "const", "anyOf", "oneOf", "$ref", "$defs"})
"""What the kinds of a `Property` say too."""


class ParameterSchema(NamedTuple):
    """What one parameter takes."""

    digest: str
    """Of its JSON Schema, without what only tells of it."""
    default: str | None
    """The digest of its default; None where it has none."""
    is_plain: bool
    """Whether its kinds, as a `Property` has them, say all of it: no format, no constraint, no default of a member."""


def parameter_schemas(function: Function) -> Mapping[str, ParameterSchema]:
    """What each of the function's parameters takes, by name; nothing for a function that can't be inspected."""
    try:
        return _remembered(function)
    except TypeError:  # a callable object that can't be a key
        return _read(function)


def _read(function: Function) -> Mapping[str, ParameterSchema]:
    return {name: _schema_of(parameter) for name, parameter in signature_of(function).parameters.items()}


_remembered = lru_cache(maxsize=4096)(_read)


def _schema_of(parameter: Parameter) -> ParameterSchema:
    adapter = parameter.adapter
    schema = _bare(adapter.json_schema(schema_generator=_WholeSchema)) if adapter else {}
    default = None if parameter.default is MISSING else _digest(_default(parameter.default))
    return ParameterSchema(_digest(schema), default, _is_plain(schema, schema.get("$defs", {}), frozenset()))


class _WholeSchema(GenerateJsonSchema):
    """With what pydantic checks and leaves out of its JSON Schema: types of keys, numbers in texts, validators."""

    def generate_inner(self, schema: CoreSchema) -> dict[str, Any]:
        found: dict[str, Any] = super().generate_inner(schema)
        told: Mapping[str, Any] = schema
        kind = told["type"]
        if kind in ("decimal", "complex"):
            return {"allOf": [found], "format": kind}
        if kind == "dict" and "keys_schema" in told:
            keys = self.generate_inner(told["keys_schema"])
            return found if keys in ({}, {"type": "string"}) else {**found, "propertyNames": keys}
        if kind.startswith("function-"):
            rule = told["function"]["function"]
            return {"allOf": [found], "rule": getattr(rule, "__qualname__", type(rule).__qualname__)}
        return {"allOf": [found], "strict": True} if told.get("strict") else found


def _bare(schema: Any, *, by_name: bool = False) -> Any:
    if isinstance(schema, list):
        return [_bare(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: value if name in _VALUES and not by_name else _bare(value, by_name=name in _BY_NAME and not by_name)
        for name, value in schema.items()
        if by_name or name not in _ONLY_TELLS
    }


def _is_plain(schema: Schema, definitions: Schema, seen: frozenset[str]) -> bool:
    """A type that contains itself is none: its kinds end somewhere."""
    if schema.keys() - _IN_KINDS - {"additionalProperties"} or schema.get("additionalProperties", True) is not True:
        return False
    reference = schema.get("$ref")
    if reference in seen:
        return False
    inner = seen | {reference} if reference else seen
    return all(_is_plain(each, definitions, inner) for each in _members(schema, definitions))


def _members(schema: Schema, definitions: Schema) -> Iterator[Schema]:
    if "$ref" in schema:
        yield definitions[schema["$ref"].rpartition("/")[2]]
    if "items" in schema:
        yield schema["items"]
    yield from schema.get("properties", {}).values()
    yield from (*schema.get("anyOf", []), *schema.get("oneOf", []))


def _default(value: Any) -> Any:
    """As JSON can hold it, else by its type."""
    try:
        plain = to_jsonable_python(value, bytes_mode="base64", fallback=lambda each: type(each).__qualname__)
    except (PydanticSerializationError, ValueError, RecursionError):
        return type(value).__qualname__
    return sorted(plain, key=json.dumps) if isinstance(value, set | frozenset) else plain


def _digest(plain: Any) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:32]
