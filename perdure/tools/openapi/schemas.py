"""Turns the schemas that an operation refers to into one self-contained JSON Schema, in the current
dialect.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator, SchemaError

from ...arguments import deeper_than
from ...json_types import JsonObject, JsonView
from .document import Document, SpecificationError

BUDGET_BYTES = 32 * 1024
"""Limit for the description of the arguments; definitions beyond it are left to the server to
check."""
_LEFT_OUT = {"description": "(Its parts are left out here: the schema is too large.)"}
_MAX_DEPTH = 48
_MAX_LEVELS = 60
"""Of the whole schema: the depth of a recorded value is limited."""
_MAX_DESCRIPTION = 2000
_PLAIN = frozenset(
    re.findall(
        r"\w+",
        "title type format enum const default required dependentRequired multipleOf minimum "
        "maximum exclusiveMinimum exclusiveMaximum minLength maxLength minItems maxItems "
        "uniqueItems minProperties maxProperties minContains maxContains contentEncoding "
        "contentMediaType",
    )
)
"""Keywords with values that stay unchanged."""
_ONE = frozenset(
    {"items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else"}
)
_MANY = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})


class SchemaWriter:
    """Converts schemas for one function, and keeps those that they refer to.

    Leaves out examples, vendor extensions, regular expressions (a foreign one may take for ever:
    they are put into words), and properties that only answers have (`readOnly`).
    """

    def __init__(self, document: Document) -> None:
        self._document = document
        self._names: dict[str, str] = {}
        self._waiting: deque[str] = deque()

    def convert(self, schema: Any, depth: int = 0) -> JsonObject:
        """Return the schema, with references to definitions. Raises SpecificationError."""
        if isinstance(schema, bool):
            return {} if schema else {"not": {}}
        if depth > _MAX_DEPTH:
            raise SpecificationError(f"a schema is nested deeper than {_MAX_DEPTH} levels")
        schema = _map(schema, "a schema")
        if isinstance(schema.get("$ref"), str):
            return self._reference(schema, depth)
        converted = dict(self._keywords(schema, depth))
        if isinstance(pattern := schema.get("pattern"), str):
            note = f"(Matches the regular expression {pattern[:200]})"
            converted["description"] = f"{converted.get('description', '')} {note}".strip()
        return _modern(converted, schema) if self._document.is_30 else converted

    def complete(self, schema: JsonObject) -> JsonObject:
        """Return the schema with the definitions that it refers to: the nearest first, and those
        beyond the limit without their parts.

        Raises SpecificationError for an invalid schema.
        """
        definitions: JsonObject = {}
        size = len(json.dumps(schema))
        try:
            while self._waiting:
                reference = self._waiting.popleft()
                converted = dict(_LEFT_OUT)
                if size <= BUDGET_BYTES:
                    found = self.convert(self._document.resolve(reference))
                    size += len(json.dumps(found))
                    converted = found if size <= BUDGET_BYTES else converted
                definitions[self._names[reference]] = converted
            whole = {**schema, **({"$defs": definitions} if definitions else {})}
            _require_usable(whole)
        except RecursionError:
            raise SpecificationError("a schema is nested too deeply") from None
        return whole

    def _reference(self, schema: JsonView, depth: int) -> JsonObject:
        reference = schema["$ref"]
        if reference not in self._names:
            self._document.resolve(reference)
            self._names[reference] = self._unused_name(reference)
            self._waiting.append(reference)
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        if self._document.is_30:
            beside = {key: value for key, value in beside.items() if key == "description"}
        return {
            "$ref": f"#/$defs/{self._names[reference]}",
            **(self.convert(beside, depth + 1) if beside else {}),
        }

    def _unused_name(self, reference: str) -> str:
        last = reference.rpartition("/")[2] or "Schema"
        name = plain = re.sub(r"[^A-Za-z0-9_.-]", "_", last)[:64]
        number = 1
        while name in self._names.values():
            number += 1
            name = f"{plain}_{number}"
        return name

    def _keywords(self, schema: JsonView, depth: int) -> Iterator[tuple[str, Any]]:
        properties = _map(schema.get("properties") or {}, "properties")
        hidden = {name for name, each in properties.items() if self._is_read_only(each)}
        for keyword, value in schema.items():
            if keyword == "description" and isinstance(value, str):
                yield keyword, _cut(value)
            elif keyword == "required" and isinstance(value, list):
                if visible := [
                    name for name in value if not isinstance(name, str) or name not in hidden
                ]:
                    yield keyword, visible
            elif keyword in _PLAIN or (keyword in _ONE and isinstance(value, bool)):
                yield keyword, value
            elif keyword in _ONE:
                yield keyword, self.convert(value, depth + 1)
            elif keyword in _MANY and isinstance(value, list):
                yield keyword, [self.convert(each, depth + 1) for each in value]
            elif keyword == "properties":
                shown = {name: each for name, each in properties.items() if name not in hidden}
                yield (
                    keyword,
                    {name: self.convert(each, depth + 1) for name, each in shown.items()},
                )

    def _is_read_only(self, schema: Any) -> bool:
        schema = self._document.follow(schema)
        return isinstance(schema, Mapping) and schema.get("readOnly") is True


def _map(value: Any, what: str) -> JsonView:
    if not isinstance(value, Mapping):
        raise SpecificationError(f"{what} must be an object, got {value!r:.60}")
    return value


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_DESCRIPTION else text[: _MAX_DESCRIPTION - 1] + "…"


def _modern(converted: JsonObject, schema: JsonView) -> JsonObject:
    """Return OpenAPI 3.0's own keywords in today's form: `nullable`, and limits that are exclusive
    by a flag.
    """
    for limit, flag in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        is_exclusive = converted.get(flag)
        if isinstance(is_exclusive, bool):
            del converted[flag]
            if is_exclusive and limit in converted:
                converted[flag] = converted.pop(limit)
    if schema.get("nullable") is not True:
        return converted
    if isinstance(converted.get("enum"), list) and None not in converted["enum"]:
        converted["enum"] = [*converted["enum"], None]
    if isinstance(converted.get("type"), str):
        return {**converted, "type": [converted["type"], "null"]}
    described: JsonObject = {
        key: converted.pop(key) for key in ("description", "default") if key in converted
    }
    return {"anyOf": [converted, {"type": "null"}], **described}


def _require_usable(schema: JsonObject) -> None:
    if deeper_than(schema, _MAX_LEVELS):
        raise SpecificationError(
            f"the schema of its arguments is nested deeper than {_MAX_LEVELS} levels"
        )
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        where = "/".join(str(step) for step in error.absolute_path)
        raise SpecificationError(
            f"the schema of its arguments is wrong at {where!r}: {error.message:.200}"
        ) from None
