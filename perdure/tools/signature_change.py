"""Compares what a tool's function takes with what it took when a run began, so that no recorded call loses its code."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import CoreSchema, PydanticSerializationError, to_jsonable_python

from ..declared_tools import Property
from ..schema import value_digest
from ..tool_calls import RecordedSignature
from .declaration import declaration_line, declaration_of, place_of
from .signature import MISSING, FunctionParameter, signature_of

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
    """Return what each of the function's parameters takes, by name; nothing for a function that can't be inspected."""
    try:
        return _remembered(function)
    except TypeError:  # a callable object that can't be a key
        return _read(function)


def _read(function: Function) -> Mapping[str, ParameterSchema]:
    return {name: _schema_of(parameter) for name, parameter in signature_of(function).parameters.items()}


_remembered = lru_cache(maxsize=4096)(_read)


def _schema_of(parameter: FunctionParameter) -> ParameterSchema:
    adapter = parameter.adapter
    schema = _plain(adapter.json_schema(schema_generator=_WholeSchema)) if adapter else {}
    default = None if parameter.default is MISSING else value_digest(_default(parameter.default))
    return ParameterSchema(value_digest(schema), default, _is_plain(schema, schema.get("$defs", {}), frozenset()))


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


def _plain(schema: Any, *, by_name: bool = False) -> Any:
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: value if name in _VALUES and not by_name else _plain(value, by_name=name in _BY_NAME and not by_name)
        for name, value in schema.items()
        if by_name or name not in _ONLY_TELLS
    }


def _is_plain(schema: Schema, definitions: Schema, seen: frozenset[str]) -> bool:
    """Return a type that contains itself is none: its kinds end somewhere."""
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


Function = Callable[..., Any]


def recorded_signature(function: Function, *, without: Iterable[str] = ()) -> RecordedSignature:
    """Return what the function takes now, for the inventory of a run; `without` as in `completed_declaration`."""
    try:
        return _remembered_signature(function, frozenset(without))
    except TypeError:  # a callable object that can't be a key
        return _read_signature(function, frozenset(without))


def _read_signature(function: Function, without: frozenset[str]) -> RecordedSignature:
    parameters = [_bare(prop) for prop in declaration_of(function, without).parameters or []]
    schemas = {name: found for name, found in parameter_schemas(function).items() if name not in without}
    return RecordedSignature(
        parameters=parameters,
        takes_anything=signature_of(function).takes_anything,
        schemas={name: found.digest for name, found in schemas.items()},
        defaults={name: found.default for name, found in schemas.items() if found.default},
    )


_remembered_signature = lru_cache(maxsize=4096)(_read_signature)


def signature_change(
    name: str,
    recorded: RecordedSignature,
    function: Function,
    *,
    without: Iterable[str] = (),
    bound: Container[str] = (),
) -> str | None:
    """Return why calls that fit the recorded signature need not fit the function, with both; None if all of them do.

    `bound` has the parameters that inputs of the run fill in.
    """
    now = recorded_signature(function, without=without)
    if recorded.takes_anything and not now.takes_anything:
        problems = ["it took any arguments"]
    else:
        problems = list(_problems(recorded.parameters, now.parameters, bound, takes_anything=now.takes_anything))
        problems = problems or list(_problems_within_kinds(recorded, now, function))
    if not problems:
        return None
    return (
        f"The function of tool '{name}' takes other arguments here than when the run began: {'; '.join(problems)}. "
        f"Then it was {declaration_line(name, recorded.parameters)}, here it is "
        f"{declaration_line(name, now.parameters)} in {place_of(function)}"
    )


def _problems(
    then: Sequence[Property], now: Sequence[Property], bound: Container[str] = (), *, takes_anything: bool = False
) -> Iterator[str]:
    here, before = {prop.name: prop for prop in now}, {prop.name for prop in then}
    for prop in then:
        found = here.get(prop.name)
        if found is None:
            if not takes_anything:
                yield f"'{prop.name}' is gone"
        elif not _takes(found, prop):
            yield f"'{prop.name}' was {prop.kind}, and is now {_narrower_kinds(found, prop)}"
        elif found.required and not prop.required:
            yield f"'{prop.name}' is required now"
    for prop in now:
        if prop.required and prop.name not in before and prop.name not in bound:
            yield f"'{prop.name}' is new and required"


def _problems_within_kinds(then: RecordedSignature, now: RecordedSignature, function: Function) -> Iterator[str]:
    """Yield what kinds do not tell. Another schema than the recorded one is no problem where it has kinds alone, as
    these take everything.
    """
    here = parameter_schemas(function)
    kinds = {prop.name: prop.kind for prop in then.parameters}
    for name in [name for name in kinds if name in now.schemas]:
        if name in then.schemas and then.schemas[name] != now.schemas[name] and not here[name].is_plain:
            yield f"'{name}' was {kinds[name]}, and is now one that may take less"
        if name in then.defaults and name in now.defaults and then.defaults[name] != now.defaults[name]:
            yield f"'{name}' has another default"


def _narrower_kinds(now: Property, then: Property) -> str:
    return now.kind if now.kind != then.kind else "one that takes less"


def _takes(now: Property, then: Property) -> bool:
    """Return whether every value that fits `then` fits `now`."""
    if then.nullable and not now.nullable:
        return False
    if then.kind == "union":
        return all(_takes(now, each) for each in _options(then))
    if now.kind == "union":
        return any(_takes(each, then) for each in _options(now))
    if now.kind != then.kind and (then.kind, now.kind) != ("integer", "float"):
        return False
    if now.enum_values:
        return bool(then.enum_values) and all(value in now.enum_values for value in then.enum_values or ())
    if now.kind == "array":
        return now.items is None or (then.items is not None and _takes(now.items, then.items))
    if not now.properties:
        return True
    return bool(then.properties) and not any(_problems(then.properties or [], now.properties))


def _options(union: Property) -> Sequence[Property]:
    return union.one_of or union.any_of or []


def _bare(prop: Property) -> Property:
    """Without what only tells of it."""
    return Property(
        name=prop.name,
        kind=prop.kind,
        required=prop.required,
        nullable=prop.nullable,
        enum_values=prop.enum_values,
        items=prop.items and _bare(prop.items),
        properties=prop.properties and [_bare(each) for each in prop.properties],
        one_of=prop.one_of and [_bare(each) for each in prop.one_of],
        any_of=prop.any_of and [_bare(each) for each in prop.any_of],
    )
