"""§9.8: the arguments of a tool call, as models write them."""

from __future__ import annotations

import contextlib
import time

import pytest

from perdure.arguments import parse_tool_arguments, parse_with_repair
from perdure.errors import ToolArgumentError
from perdure.json_types import JsonObject

FENCES = "Parsed tool arguments after stripping markdown fences"
BLOCK = "Parsed tool arguments after extracting the first JSON object"
COMMAS = "Parsed tool arguments after removing trailing commas"
BOTH = "Parsed tool arguments after extracting the first JSON object and removing trailing commas"


@pytest.mark.parametrize(
    ("raw", "arguments", "warning"),
    [
        pytest.param('{"city": "Paris"}', {"city": "Paris"}, None, id="plain"),
        pytest.param(" \n{} ", {}, None, id="no arguments"),
        pytest.param("", {}, None, id="nothing at all"),
        pytest.param(" \n", {}, None, id="blanks"),
        pytest.param(
            '{"a": {"b": [1, 1.5, null, true]}}',
            {"a": {"b": [1, 1.5, None, True]}},
            None,
            id="nested",
        ),
        pytest.param('{"a": "\\ud83d\\ude00"}', {"a": "😀"}, None, id="an escaped pair"),
        pytest.param('```json\n{"a": 1}\n```', {"a": 1}, FENCES, id="fences"),
        pytest.param(' ```{"a": "```"}```\n', {"a": "```"}, FENCES, id="fences on one line"),
        pytest.param('Here: {"a": 1}. Done', {"a": 1}, BLOCK, id="prose around"),
        pytest.param(
            'Call it "so}": {"a": "}{\\"", "b": {"c": 1}} {"d": 2}',
            {"a": '}{"', "b": {"c": 1}},
            BLOCK,
            id="braces in strings",
        ),
        pytest.param('{"a": 1}}', {"a": 1}, BLOCK, id="a brace too many"),
        pytest.param('```json\n{"a": 1}', {"a": 1}, BLOCK, id="an open fence"),
        pytest.param('{"a": [1, 2, ], }', {"a": [1, 2]}, COMMAS, id="trailing commas"),
        pytest.param(
            '{"a": "x,}", "b": ",]",}',
            {"a": "x,}", "b": ",]"},
            COMMAS,
            id="commas in strings are kept",
        ),
        pytest.param('```json\n{"a": 1,}\n```', {"a": 1}, BOTH, id="fences and trailing commas"),
    ],
)
def test_arguments(raw: str, arguments: JsonObject, warning: str | None) -> None:
    assert parse_with_repair(raw) == (arguments, warning)
    assert parse_tool_arguments(raw) == arguments


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        pytest.param("no JSON", "Expecting value: line 1 column 1 (char 0)", id="prose"),
        pytest.param('{"a": ', "Expecting value: line 1 column 7", id="cut off"),
        pytest.param('{"a": "x', "Unterminated string", id="cut off in a string"),
        pytest.param("{a: 1}", "Expecting property name enclosed in double quotes", id="no quotes"),
        pytest.param("[1]", "expected a JSON object, got '[1]'", id="a list"),
        pytest.param('[{"a": 1}]', "expected a JSON object", id="a list with an object"),
        pytest.param('"text"', "expected a JSON object", id="a text"),
        pytest.param("null", "expected a JSON object, got 'null'", id="null"),
        pytest.param('```\n"text"\n```', "expected a JSON object", id="a text in fences"),
        pytest.param('{"a": NaN}', "NaN is not a JSON value", id="not a number"),
        pytest.param('{"a": 1e999}', "1e999 is too large a number", id="infinity"),
        pytest.param('{"a": "\\ud83d"}', "half of a surrogate pair", id="half a character"),
        pytest.param(
            '{"a": ' + "[" * 150 + "]" * 150 + "}", "nested deeper than 100 levels", id="deep"
        ),
        pytest.param('{"a": ' + "[" * 50_000, "nested too deeply", id="deeper than can be read"),
        pytest.param('{"a": ' + "1" * 5000 + "}", "Exceeds the limit", id="an endless number"),
        pytest.param("`````", "Expecting value", id="nothing but fences"),
    ],
)
def test_wrong_arguments(raw: str, message: str) -> None:
    with pytest.raises(ToolArgumentError) as caught:
        parse_tool_arguments(raw)
    assert message in str(caught.value)


@pytest.mark.parametrize("prefix", ["", "{", '{"', "```", "```json\n{"])
@pytest.mark.parametrize(
    "unit",
    list('{}"\\,[] `\n')
    + ['\\"', '{"', "{,", ", ", " ,", "{}", '{"a":1,', "```{", '{"a":["', "{ ,"],
)
def test_linear_time(prefix: str, unit: str) -> None:
    """100 KB take well under a second: squared time would take many."""
    raw = prefix + unit * (100_000 // len(unit))
    started = time.process_time()
    with contextlib.suppress(ToolArgumentError):
        parse_tool_arguments(raw)
    assert time.process_time() - started < 0.7
