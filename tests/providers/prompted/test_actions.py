"""What is read in a model's text: its actions, and what it has meant as one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure.arguments import parse_tool_arguments
from perdure.providers.prompted.actions import SECOND, read_actions

CALC = {"tool": "calculator", "arguments": {"expression": "2 + 2"}}
ONE = json.dumps(CALC)
PRETTY = json.dumps(CALC, indent=2)

ACTIONS: dict[str, tuple[str, list[tuple[str, Any]]]] = {
    "whole reply": (ONE, [("calculator", {"expression": "2 + 2"})]),
    "pretty-printed": (PRETTY, [("calculator", {"expression": "2 + 2"})]),
    "prose, then JSON on a line of its own": (
        f"I will add.\n{ONE}\nDone.",
        [("calculator", {"expression": "2 + 2"})],
    ),
    "JSON within a line": (f"I call {ONE} now", [("calculator", {"expression": "2 + 2"})]),
    "prose and pretty JSON": (f"Let me see:\n{PRETTY}", [("calculator", {"expression": "2 + 2"})]),
    "fenced": (f"```json\n{ONE}\n```", [("calculator", {"expression": "2 + 2"})]),
    "prose and a fence, pretty": (
        f"So:\n```\n{PRETTY}\n```\nok?",
        [("calculator", {"expression": "2 + 2"})],
    ),
    "closing brace in a string": (
        '{"tool": "echo", "arguments": {"text": "a } b"}}',
        [("echo", {"text": "a } b"})],
    ),
    "opening brace in a string": (
        'See {"tool": "echo", "arguments": {"text": "{"}} .',
        [("echo", {"text": "{"})],
    ),
    "nested braces": (
        '{"tool": "put", "arguments": {"a": {"b": {"c": [{}]}}}}',
        [("put", {"a": {"b": {"c": [{}]}}})],
    ),
    "a stray {} before": (f"An empty {{}} first. {ONE}", [("calculator", {"expression": "2 + 2"})]),
    "a stray brace before": (f"Use {{ to open. {ONE}", [("calculator", {"expression": "2 + 2"})]),
    "a set in prose before": (
        f"Of {{'a', 'b'}} I take b: {ONE}",
        [("calculator", {"expression": "2 + 2"})],
    ),
    "another object before": ('{"score": 3} {"tool": "a"}', [("a", {})]),
    "thinking before": ('<think>maybe {"tool": "b"}</think>\n{"tool": "a"}', [("a", {})]),
    "no arguments": ('{"tool": "now"}', [("now", {})]),
    "null arguments": ('{"tool": "now", "arguments": null}', [("now", {})]),
    "arguments as a text": ('{"tool": "a", "arguments": "{\\"b\\": 1}"}', [("a", {"b": 1})]),
    "further keys": ('{"thought": "hm", "tool": "a", "arguments": {"b": 1}}', [("a", {"b": 1})]),
    "tool before agent": ('{"agent": "x", "task": "y", "tool": "a"}', [("a", {})]),
    "an agent": (
        '{"agent": "researcher", "task": "Find information about quantum computing"}',
        [("delegate_to_researcher", {"task": "Find information about quantum computing"})],
    ),
    "an agent by its tool's name": (
        '{"agent": "delegate_to_x", "task": "y"}',
        [("delegate_to_x", {"task": "y"})],
    ),
    "name and arguments": ('{"name": "a", "arguments": {"b": 1}}', [("a", {"b": 1})]),
    "a trailing comma": ('{"tool": "a", "arguments": {"b": 1,},}', [("a", {"b": 1})]),
    "a line break in a string": (
        '{"tool": "a", "arguments": {"b": "x\ny"}}',
        [("a", {"b": "x\ny"})],
    ),
    "quotes that are escaped": (
        'ok {"tool": "a", "arguments": {"b": "\\"{\\""}}',
        [("a", {"b": '"{"'})],
    ),
}

NONE = {
    "empty object": "{}",
    "empty object, fenced": "```json\n{}\n```",
    "a fence that is not closed": "```",
    "empty object in prose": "Nothing to do: {}",
    "a text": "The answer is 4.",
    "nothing": "",
    "an object that is no action": '{"score": 3}',
    "an object in prose": 'The result is {"score": 3}.',
    "an empty name": '{"tool": "", "arguments": {}}',
    "a null name": '{"tool": null, "agent": null}',
    "a person": '{"name": "Ada", "age": 36}',
    "a person with a note": '{"name": "Ada", "arguments": {"for": 1}, "age": 36}',
    "a list of numbers": "[1, 2, 3]",
    "a number": "4",
    "code": "def f(): return {'a': 1}",
    "half an object that is no action": '{"score": 3, "why": "bec',
    "the word": "The tool: a hammer {or two}",
}

FAULTS: dict[str, tuple[str, str, str]] = {
    "cut": (
        '{"tool": "calculator", "arguments": {"expression": "2 +',
        "calculator",
        "JSON (Unterminated string starting at",
    ),
    "cut after prose": ('I call {"tool": "calculator", "argum', "calculator", "not valid JSON"),
    "cut, with a thought": (
        '{"thought": "hm", "tool": "a", "arguments": {"b": "c',
        "a",
        "not valid JSON",
    ),
    "a missing brace": ('{"tool": "a", "arguments": {"b": 1}', "a", "not valid JSON"),
    "an action within a broken one": (
        '{"tool": "save", "arguments": {"plan": {"tool": "delete", "arguments": {}}},,}',
        "save",
        "not valid JSON",
    ),
    "single quotes": ("{'tool': 'a', 'arguments': {'b': 1}}", "a", "double quotes"),
    "no quotes": ("{tool: a}", "invalid_action", "double quotes"),
    "an agent, cut": ('{"agent": "x", "task": "y', "delegate_to_x", "not valid JSON"),
    "no task": ('{"agent": "x"}', "delegate_to_x", "Invalid delegation: missing 'task'"),
    "an empty task": (
        '{"agent": "x", "task": ""}',
        "delegate_to_x",
        "Invalid delegation: missing 'task'",
    ),
    "a task that is no text": (
        '{"agent": "x", "task": 5}',
        "delegate_to_x",
        "'task' must be a text, got 5",
    ),
    "an agent that is no text": (
        '{"agent": ["x"], "task": "y"}',
        "invalid_action",
        "agent's name must be a text",
    ),
    "a tool that is no text": (
        '{"tool": {"name": "a"}}',
        "invalid_action",
        "tool's name must be a text",
    ),
}


@pytest.mark.parametrize(("text", "expected"), ACTIONS.values(), ids=ACTIONS)
def test_what_is_an_action(text: str, expected: list[tuple[str, Any]]) -> None:
    found = read_actions(text).actions
    assert [(action.name, parse_tool_arguments(action.arguments)) for action in found] == expected
    assert [action.fault for action in found] == [None] * len(found)


@pytest.mark.parametrize("text", NONE.values(), ids=NONE)
def test_what_is_none(text: str) -> None:
    assert read_actions(text).actions == []


@pytest.mark.parametrize(("text", "name", "words"), FAULTS.values(), ids=FAULTS)
def test_what_was_meant_as_one(text: str, name: str, words: str) -> None:
    (action,) = read_actions(text).actions
    assert action.name == name
    assert words in (action.fault or "")


def test_the_first_of_two_objects_counts_and_a_warning_says_so() -> None:
    reading = read_actions('{"tool": "a"}\nResult: 5\n{"tool": "b"}')
    assert [action.name for action in reading.actions] == ["a"]
    assert reading.warnings == (SECOND,)
    assert read_actions('{"tool": "a"}\n{}').warnings == ()


def test_what_is_said_before_an_action_is_kept() -> None:
    assert read_actions(f"I will add.\n\n```json\n{ONE}\n```\nThen I wait.").before == "I will add."


@pytest.mark.parametrize(
    "text", ['{"tool": "a", "arguments": {"b": "\\ud800"}}', '{"tool": "\\udc00"}']
)
def test_what_can_not_be_recorded_becomes_what_can(text: str) -> None:
    (action,) = read_actions(text).actions
    assert action.name.encode()
    assert action.arguments.encode()


@pytest.mark.parametrize(
    "text",
    [
        '{"a": [' * 20_000,
        '{"' * 20_000,
        "{" * 30_000,
        '{"a": "' * 10_000,
        "{'tool'" * 10_000,
        '{"a": 1} ' * 10_000,
        '{"a": [1, {"b": ' * 10_000,
        "```\n" + "\n" * 1_000_000,
        "```json\n" + " \n" * 500_000 + "{}",
    ],
)
def test_long_nonsense_is_read_in_little_time(text: str) -> None:
    read_actions(text)
    read_actions(f"{text}{ONE}")
