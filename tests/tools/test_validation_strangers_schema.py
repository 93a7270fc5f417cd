"""Schemas that strangers have written, for arguments of a model or a person: bounded time, nothing
looked up.
"""

from __future__ import annotations

import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

from perdure.json_types import JsonObject
from perdure.tools.validation import edited_problems, schema_problems


def _object(**properties: Any) -> JsonObject:
    return {"type": "object", "properties": properties}


def _doubling(levels: int) -> JsonObject:
    steps = {
        f"d{level}": {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(levels)
    }
    return _object(a={"$ref": "#/$defs/d0"}) | {
        "$defs": {**steps, f"d{levels}": {"type": "string"}}
    }


HOSTILE = {
    "references that double": (_doubling(40), {"a": "x"}),
    "a circle": (_object(a={"$ref": "#/properties/a"}), {"a": 1}),
    "a reference that leads nowhere": (_object(a={"$ref": "#/nowhere"}), {"a": 1}),
    "a file": (_object(a={"$ref": "file:///etc/hostname"}), {"a": 1}),
    "no schema": (_object(a=5), {"a": 1}),
    "no type": (_object(a={"type": 5}), {"a": 1}),
    "a minimum that is none": (_object(a={"minimum": "x"}), {"a": 1}),
    "required that is no list": ({"type": "object", "required": 5, "properties": {}}, {"a": 1}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_schema_that_can_not_be_used_is_a_problem_that_is_told_and_soon(name: str) -> None:
    schema, arguments = HOSTILE[name]
    for problems in (schema_problems(schema, arguments)[1], edited_problems(schema, arguments)):
        assert any("the tool's own schema can't be used" in problem for problem in problems), (
            problems
        )


PATTERNS = {
    "a value's": (_object(a={"type": "string", "pattern": "^(a+)+$"}), {"a": "a" * 60 + "!"}),
    "names'": (
        _object() | {"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False},
        {"a" * 60 + "!": 1},
    ),
    "names that are evaluated": (
        _object() | {"patternProperties": {"^(a+)+$": {}}, "unevaluatedProperties": False},
        {"a" * 60 + "!": 1},
    ),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns_of_strangers_are_not_evaluated(name: str) -> None:
    schema, arguments = PATTERNS[name]
    started = time.process_time()
    assert schema_problems(schema, arguments) == (arguments, [])
    assert edited_problems(schema, arguments) == []
    assert time.process_time() - started < 5  # The expression itself takes for ever.


def test_nothing_is_fetched() -> None:
    asked: list[str] = []

    class Service(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

    with HTTPServer(("127.0.0.1", 0), Service) as service:
        Thread(target=service.serve_forever, daemon=True).start()
        schema = _object(a={"$ref": f"http://127.0.0.1:{service.server_port}/schema.json"})
        assert edited_problems(schema, {"a": 1})
        assert schema_problems(schema, {"a": 1})[1]
        service.shutdown()
    assert asked == []


@pytest.mark.parametrize(
    ("schema", "arguments", "problem"),
    [
        (
            _object(n={"type": "integer", "minimum": 10}),
            {"n": 5},
            "'n': 5 is less than the minimum of 10",
        ),
        (
            _object(a={}) | {"additionalProperties": False},
            {"b": 1},
            "unknown argument 'b': expected a",
        ),
        (_object(a=True) | {"required": ["a"]}, {}, "'a' is required (any value)"),
        (
            _object(s={"maxLength": 3}),
            {"s": "x" * 1000},
            f"""'s': "{"x" * 59}… does not fit {{"maxLength": 3}}""",
        ),
    ],
)
def test_a_broken_rule_is_named(schema: JsonObject, arguments: JsonObject, problem: str) -> None:
    assert schema_problems(schema, arguments)[1] == [problem]
