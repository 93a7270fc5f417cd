"""Reads the actions in a model's text: one JSON object, with any text around it.

The grammar: `{"tool": NAME, "arguments": {…}}`, `{"agent": NAME, "task": TEXT}`, and `{}` for none.
Also understood are the forms of other prompts: `{"name", "arguments"}`, `{"tool_calls": […]}`, and
a list of actions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from ...arguments import closing_brace, without_trailing_commas
from ...json_types import JsonObject
from ...settings.child_agents import DELEGATE, TASK
from ...text import excerpt, valid_text

FAULTY = "invalid_action"
"""The name of an action without a name."""
INVALID = "Invalid "
"""The beginning of the text that describes an action's error."""
MAX_KEPT = 8 * 1024
"""The characters of an unreadable action that the call keeps."""
SECOND = "The model wrote several actions in one reply: only the first one counts"
_WRITE = "Write one JSON object and nothing else, its names and texts in double quotes"

_THINKING = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_FENCE = "```"
_FENCED = re.compile(rf"{_FENCE}[a-zA-Z]*[^\S\n]*\n")
_START = re.compile(r"""\{(?=\s*(?:["'}\u201c\u201d]|(?:tool|agent|tool_calls)\s*:))""")
_KEY = r"(?P<key>tool|agent|tool_calls)"
_NAME = r"""(?:["'\u201c\u201d](?P<name>[^"'\u201c\u201d\n]{1,200})["'\u201c\u201d])?"""
_MEANT_FIRST = re.compile(rf"""\{{\s*["'\u201c]?{_KEY}["'\u201d]?\s*:\s*{_NAME}""")
_MEANT_LATER = re.compile(rf"""["'\u201c]{_KEY}["'\u201d]\s*:\s*{_NAME}""")
_NAMED = frozenset({"id", "type", "name", "arguments", "parameters"})
_ARGUMENTS = ("arguments", "parameters", "args")
_DECODER = json.JSONDecoder(strict=False)
_EFFORT = 50_000_000
"""The characters that failed searches for an object may read, besides twenty times the text: each
error counts lines from the beginning of the text, so that many errors take quadratic time."""


class Action(NamedTuple):
    """A tool call of the model; an agent is the tool `delegate_to_NAME`."""

    name: str
    arguments: str
    """JSON text."""
    fault: str | None = None
    """The reason why it can't be executed."""


class Reading(NamedTuple):
    """The content of a text."""

    actions: list[Action]
    before: str = ""
    """The model's text before its action."""
    warnings: tuple[str, ...] = ()


def read_actions(text: str) -> Reading:
    """Return the actions in a text; [] for any other text. Takes linear time, never raises."""
    spoken = _THINKING.sub("", text)
    if (actions := _read_whole(spoken)) is not None:
        return Reading(actions)
    found: tuple[int, list[Action]] | None = None
    for start, value in _objects(spoken):
        actions = (
            [_malformed_action(spoken[start:], value)]
            if isinstance(value, _Unreadable)
            else _actions(value)
        )
        if not actions:
            continue
        if found is not None:
            return Reading(found[1], _before(spoken, found[0]), (SECOND,))
        found = start, actions
        if isinstance(value, _Unreadable):
            break
    return Reading(found[1], _before(spoken, found[0])) if found else Reading([])


def _read_whole(text: str) -> list[Action] | None:
    """Return the actions of a text that consists of JSON alone, fenced or not; None for any other
    text.
    """
    try:
        return _actions(_DECODER.decode(_bare(text)))
    except (ValueError, RecursionError):
        return None


def is_nothing(text: str) -> bool:
    """Return whether a text is empty or `{}`, by which the model declares that it needs no tool.
    Never raises.
    """
    return "".join(_bare(text).split()) in ("", "{}")


def _bare(text: str) -> str:
    """Return the text without the thinking before it, and without a fence around it."""
    spoken = _THINKING.sub("", text).strip()
    opened = _FENCED.match(spoken)
    if opened and spoken.endswith(_FENCE, opened.end()):
        return spoken[opened.end() : -len(_FENCE)].strip()
    return spoken


class _Unreadable(NamedTuple):
    """An object that is meant as an action but is not valid JSON."""

    key: str
    name: str
    why: str


def _objects(text: str) -> Iterator[tuple[int, Any]]:
    """JSON objects in a text, none of them within another, and invalid ones that are meant as
    actions.
    """
    position, effort = 0, _EFFORT + 20 * len(text)
    while effort > 0 and (match := _START.search(text, position)):
        start = match.start()
        try:
            value, position = _DECODER.raw_decode(text, start)
            yield start, value
        except (ValueError, RecursionError) as error:
            end = closing_brace(text, start)
            effort -= getattr(error, "pos", len(text)) + (end or start) - start
            position = (
                len(text) if end is None else start + 1
            )  # Nothing within a truncated object is an action.
            if meant := _action_mark(text, start):
                effort = 0
                yield start, _repair(text[start:], meant, error)


def _action_mark(text: str, start: int) -> re.Match[str] | None:
    """Return the match that marks the object at `start` as an action, if it comes before any nested
    object.
    """
    further = _START.search(text, start + 1)
    end = further.start() if further else len(text)
    return _MEANT_FIRST.match(text, start) or _MEANT_LATER.search(text, start, end)


def _repair(text: str, meant: re.Match[str], error: Exception) -> Any:
    """Return the object at the start of a text, without its trailing commas; or the reason why it
    can't be read.
    """
    try:
        return _DECODER.raw_decode(without_trailing_commas(text))[0]
    except (ValueError, RecursionError):
        return _Unreadable(meant["key"], meant["name"] or FAULTY, _why(error))


def _why(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg.removesuffix(' at')} at character {error.pos}"
    return "too deep" if isinstance(error, RecursionError) else "a number has too many digits"


def _malformed_action(text: str, found: _Unreadable) -> Action:
    fault = f"{INVALID}action: it is not valid JSON ({found.why}). {_WRITE}"
    name = _delegate(found.name) if found.key == "agent" else valid_text(found.name)
    return Action(name, excerpt(text, MAX_KEPT), fault)


def _actions(value: Any) -> list[Action]:
    """Return the actions in a JSON value; [] for any other value."""
    if isinstance(value, list):
        return [action for each in value if isinstance(each, dict) for action in _actions(each)]
    if not isinstance(value, dict):
        return []
    if value.get("tool"):
        return [_tool(value["tool"], value)]
    if value.get("agent"):
        return [_agent(value)]
    if isinstance(value.get("tool_calls"), list):
        return [_listed_action(each) for each in value["tool_calls"]]
    if isinstance(value.get("name"), str) and _is_call(value):
        return [_tool(value["name"], value)]
    return []


def _is_call(value: JsonObject) -> bool:
    return value.keys() <= _NAMED and any(
        isinstance(value.get(key), dict | str) for key in _ARGUMENTS
    )


def _listed_action(value: Any) -> Action:
    call = value.get("function", value) if isinstance(value, dict) else None
    if not isinstance(call, dict):
        return _faulty(
            "tool call", f"expected an object with 'name' and 'arguments', got {value!r:.80}", value
        )
    if actions := _actions({key: call[key] for key in call if key != "tool_calls"}):
        return actions[0]
    return _tool(call.get("name") or "", call)


def _tool(name: Any, value: JsonObject) -> Action:
    if not isinstance(name, str) or not name:
        return _faulty("tool call", f"the tool's name must be a text, got {name!r:.80}", value)
    given: Any = next((value[key] for key in _ARGUMENTS if value.get(key) is not None), {})
    return Action(
        valid_text(name), given if isinstance(given, str) and given.strip() else _json(given)
    )


def _agent(value: JsonObject) -> Action:
    name, task = value["agent"], value.get(TASK)
    if not isinstance(name, str):
        return _faulty("delegation", f"the agent's name must be a text, got {name!r:.80}", value)
    if isinstance(task, str) and task:
        return Action(_delegate(name), _json({TASK: task}))
    fault = f"'{TASK}' must be a text, got {task!r:.80}" if task else f"missing '{TASK}'"
    return Action(_delegate(name), _json(value), f"{INVALID}delegation: {fault}")


def _faulty(what: str, problem: str, value: Any) -> Action:
    return Action(FAULTY, excerpt(_json(value), MAX_KEPT), f"{INVALID}{what}: {problem}")


def _delegate(agent: str) -> str:
    """Return the name of an agent's tool."""
    return valid_text(agent if agent.startswith(DELEGATE) else f"{DELEGATE}{agent}")


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # Half of a surrogate pair can be recorded only as its escape, which makes the tool's arguments
    # invalid.
    return text if valid_text(text) == text else json.dumps(value, separators=(",", ":"))


def _before(text: str, start: int) -> str:
    return re.sub(r"```[a-zA-Z]*\s*\Z", "", text[:start]).strip()
