"""Writes docs/reference/rest.md, perdure's own HTTP API, from its OpenAPI document: `make docs`. A
test compares.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from perdure.gateway.operations import openapi_document
from perdure.gateway.own import OPERATIONS
from perdure.json_types import JsonObject

FILE = Path(__file__).resolve().with_name("reference") / "rest.md"
INTRODUCTION = """\
# HTTP API

Every address of perdure's own API, written from its OpenAPI document (`make docs`), which a gateway serves at
`/perdure/openapi.json`. [Over HTTP](../guides/gateway.md#perdures-own-api) shows it in use: tokens, streams, errors.

Requests and answers are JSON. An error is a [`ProblemBody`](#problembody). Optional fields have their default, if it is not null or empty.

## Addresses
"""


def page() -> str:
    """The whole page, as it should be."""
    document = openapi_document(OPERATIONS, title="perdure")
    lines = [INTRODUCTION]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            lines += _operation(method.upper(), path, operation)
    lines.append("## Objects\n")
    for name, schema in sorted(document["components"]["schemas"].items()):
        lines += [f"### {name}\n", *_object(schema)]
    return "\n".join(lines).rstrip() + "\n"


def _operation(method: str, path: str, operation: JsonObject) -> Iterator[str]:
    yield f"### {method} {path}\n\n{operation['summary']}\n"
    asked = [each for each in operation["parameters"] if each["in"] == "query"]
    if asked:
        yield "Query: " + ", ".join(f"`{each['name']}`" for each in asked) + ".\n"
    if "requestBody" in operation:
        yield f"Body: {_content(operation['requestBody']['content'])}.\n"
    status, answer = next(iter(operation["responses"].items()))
    yield f"Answer: {status}, {_content(answer['content'])}.\n"


def _content(content: JsonObject) -> str:
    streams = ", or server-sent events" if "text/event-stream" in content else ""
    return _type(content["application/json"]["schema"]) + streams


def _object(schema: JsonObject) -> Iterator[str]:
    if text := schema.get("description", ""):
        yield " ".join(text.split()) + "\n"
    required = schema.get("required", ())
    fields = [
        f"- `{name}`: {_type(field)}{_default(field, name in required)}{_text(field)}"
        for name, field in schema.get("properties", {}).items()
    ]
    if fields:
        yield "\n".join(fields) + "\n"


def _type(schema: JsonObject) -> str:
    if name := schema.get("$ref", "").rpartition("/")[2]:
        return f"[`{name}`](#{name.lower()})"
    if either := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(map(_type, either)))
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{each}`" for each in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("type") or "nothing" * (not schema) or "any JSON")


def _default(field: JsonObject, is_required: bool) -> str:
    default = field.get("default")
    if is_required:
        return ", required"
    return "" if default in (None, "", [], {}) else f", `{default}`"


def _text(field: JsonObject) -> str:
    text = " ".join(field.get("description", "").split())
    return f". {text}" if text else ""


if __name__ == "__main__":
    FILE.write_text(page(), encoding="utf-8")
