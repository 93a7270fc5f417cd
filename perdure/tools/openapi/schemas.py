"""Turns the schemas that an operation refers to into one self-contained JSON Schema, in the current
dialect.
"""

from __future__ import annotations

import json
import re
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urldefrag

from jsonschema import Draft202012Validator, SchemaError

from ...arguments import deeper_than
from ...json_types import JsonObject, JsonView
from .document import Documents, SpecificationError, as_list, as_map

MAX_SCHEMA_BYTES = 48 * 1024
"""Limit for one function's arguments, as JSON."""
BUDGET_BYTES = 32 * 1024
"""Limit for the description of the arguments; definitions beyond it are left to the server to
check."""
_LEFT_OUT = {"description": "(Its parts are left out here: the schema is too large.)"}
_MAX_INLINED = 4
"""Levels of nested definitions."""
_MAX_DEPTH = 48
_MAX_LEVELS = 60
"""Of the whole schema: the depth of a recorded value is limited."""
_MAX_DESCRIPTION = 2000
_PLAIN = frozenset(
    (
        *(
            "title",
            "type",
            "format",
            "enum",
            "const",
            "default",
            "required",
            "dependentRequired",
            "multipleOf",
        ),
        *(
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "minLength",
            "maxLength",
            "minItems",
        ),
        *(
            "maxItems",
            "uniqueItems",
            "minProperties",
            "maxProperties",
            "minContains",
            "maxContains",
        ),
        *("contentEncoding", "contentMediaType"),
    )
)
"""Keywords with values that stay unchanged."""
_ONE = frozenset(
    {"items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else"}
)
_MANY = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_REFERENCE = "#/$defs/"


class SchemaWriter:
    """Converts schemas for one function, and keeps those that they refer to.

    Leaves out examples, vendor extensions, regular expressions (a foreign one may take for ever:
    they are put into words), and properties that only answers have (`readOnly`).
    """

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._names: dict[str, str] = {}
        self._definitions: JsonObject = {}
        self._waiting: deque[tuple[str, Any, str]] = deque()

    def convert(self, schema: Any, base: str, depth: int = 0) -> JsonObject:
        """Return the schema in the document `base`, with references to definitions. Raises
        SpecificationError.
        """
        if isinstance(schema, bool):
            return {} if schema else {"not": {}}
        if depth > _MAX_DEPTH:
            raise SpecificationError(f"a schema is nested deeper than {_MAX_DEPTH} levels")
        schema = as_map(schema, "a schema")
        if isinstance(schema.get("$ref"), str):
            return self._reference(schema, base, depth)
        converted = dict(self._keywords(schema, base, depth))
        if note := _pattern_note(schema):
            converted["description"] = f"{converted.get('description', '')} {note}".strip()
        return _modern(converted, schema) if self._documents.is_30 else converted

    def follow(self, schema: Any, base: str) -> tuple[Any, str]:
        """Return the schema with a `$ref` replaced by its target, and the URI of its document.
        Raises SpecificationError.
        """
        return self._documents.follow(schema, base)

    def complete(self, schema: JsonObject) -> JsonObject:
        """Return the schema with the definitions that it needs. Raises SpecificationError for an
        invalid schema.
        """
        self._define(len(json.dumps(schema)))
        once = self._used_once(schema)
        try:
            whole: JsonObject = self._inline(schema, once)
            if kept := self._reachable_names(schema) - once:
                whole["$defs"] = {
                    name: self._inline(self._definitions[name], once) for name in sorted(kept)
                }
            _require_usable(whole)
        except RecursionError:
            raise SpecificationError("a schema is nested too deeply") from None
        return whole

    def _define(self, size: int) -> None:
        """Convert the referenced schemas, the nearest first, and leave out those that exceed the
        limit beside `size` bytes.
        """
        while self._waiting:
            name, target, base = self._waiting.popleft()
            converted = self.convert(target, base) if size <= BUDGET_BYTES else dict(_LEFT_OUT)
            more = len(json.dumps(converted))
            if size + more > BUDGET_BYTES:
                converted, more = dict(_LEFT_OUT), 0
            self._definitions[name] = converted
            size += more

    def _used_once(self, schema: JsonObject) -> set[str]:
        """Return the names of the definitions that can replace their only reference, without
        nesting deeply.
        """
        counts = Counter(_references([schema, *self._definitions.values()]))
        references = {
            name: set(_references([each]))
            for name, each in self._definitions.items()
            if counts[name] == 1
        }
        once: set[str] = set()
        for _ in range(_MAX_INLINED):
            once |= {name for name, needed in references.items() if needed <= once}
        return once

    def _reachable_names(self, schema: JsonObject) -> set[str]:
        """Return the names of the definitions reachable from the schema."""
        reached: set[str] = set()
        new = set(_references([schema]))
        while new:
            reached |= new
            new = {
                name for known in new for name in _references([self._definitions[known]])
            } - reached
        return reached

    def _reference(self, schema: JsonView, base: str, depth: int) -> JsonObject:
        target, uri = self._documents.resolve(schema["$ref"], base)
        if uri not in self._names:
            self._names[uri] = self._unused_name(uri)
            self._waiting.append((self._names[uri], target, urldefrag(uri).url))
        beside: JsonObject = {}
        if self._documents.is_30 and isinstance(schema.get("description"), str):
            beside = {"description": _cut(schema["description"])}
        elif not self._documents.is_30 and len(schema) > 1:
            beside = self.convert(
                {name: value for name, value in schema.items() if name != "$ref"}, base, depth + 1
            )
        return {"$ref": _REFERENCE + self._names[uri], **beside}

    def _unused_name(self, uri: str) -> str:
        last = urldefrag(uri).fragment.rpartition("/")[2] or "Schema"
        name = plain = re.sub(r"[^A-Za-z0-9_.-]", "_", last)[:64]
        number = 1
        while name in self._names.values():
            number += 1
            name = f"{plain}_{number}"
        return name

    def _keywords(self, schema: JsonView, base: str, depth: int) -> Iterator[tuple[str, Any]]:
        hidden = self._answers_only(schema, base)
        for keyword, value in schema.items():
            if keyword == "description" and isinstance(value, str):
                yield keyword, _cut(value)
            elif keyword == "required" and isinstance(value, list):
                if visible := [
                    name for name in value if not isinstance(name, str) or name not in hidden
                ]:
                    yield keyword, visible
            elif keyword in _PLAIN:
                yield keyword, value
            elif keyword in _ONE:
                yield (
                    keyword,
                    value if isinstance(value, bool) else self.convert(value, base, depth + 1),
                )
            elif keyword in _MANY:
                yield (
                    keyword,
                    [self.convert(each, base, depth + 1) for each in as_list(value, keyword)],
                )
            elif keyword == "properties":
                shown = {
                    name: each
                    for name, each in as_map(value, keyword).items()
                    if name not in hidden
                }
                yield (
                    keyword,
                    {name: self.convert(each, base, depth + 1) for name, each in shown.items()},
                )

    def _answers_only(self, schema: JsonView, base: str) -> set[str]:
        properties = as_map(schema.get("properties"), "properties")
        return {name for name, each in properties.items() if self._is_read_only(each, base)}

    def _is_read_only(self, schema: Any, base: str) -> bool:
        if isinstance(schema, Mapping) and "$ref" in schema:
            schema = self._documents.follow(schema, base)[0]
        return isinstance(schema, Mapping) and schema.get("readOnly") is True

    def _inline(self, value: Any, once: set[str]) -> Any:
        """Return the value, in which references to the definitions of these names are replaced by
        them.
        """
        if isinstance(value, list):
            return [self._inline(each, once) for each in value]
        if not isinstance(value, dict):
            return value
        name = _referred_name(value)
        if name is None:
            return {key: self._inline(each, once) for key, each in value.items()}
        inner = {key: self._inline(each, once) for key, each in value.items() if key != "$ref"}
        if name not in once:
            return {"$ref": value["$ref"], **inner}
        target = self._inline(self._definitions[name], once)
        return (
            {**target, **inner}
            if inner.keys() <= {"description", "default"}
            else {"allOf": [target], **inner}
        )


def _referred_name(value: JsonView) -> str | None:
    reference = value.get("$ref")
    found = isinstance(reference, str) and reference.startswith(_REFERENCE)
    return reference[len(_REFERENCE) :] if isinstance(reference, str) and found else None


def _references(row: list[Any]) -> Iterator[str]:
    while row:
        value = row.pop()
        if isinstance(value, dict):
            if name := _referred_name(value):
                yield name
            row += value.values()
        elif isinstance(value, list):
            row += value


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_DESCRIPTION else text[: _MAX_DESCRIPTION - 1] + "…"


def _pattern_note(schema: JsonView) -> str:
    pattern = schema.get("pattern")
    return f"(Matches the regular expression {pattern[:200]})" if isinstance(pattern, str) else ""


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
    size = len(json.dumps(schema, ensure_ascii=False).encode(errors="replace"))
    if size > MAX_SCHEMA_BYTES:
        raise SpecificationError(
            f"the schema of its arguments has {size:,} bytes: at most {MAX_SCHEMA_BYTES:,} work"
        )
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
