"""Reads the actions in a model's text: one JSON object, with any text around it.

The grammar: `{"tool": NAME, "arguments": {…}}`, `{"agent": NAME, "task": TEXT}`, and `{}` for none.
Also understood is `{"name", "arguments"}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
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
_START = re.compile(r"""\{(?=\s*(?:["'}]|(?:tool|agent)\s*:))""")
_MEANT = re.compile(
    r"""(?:\{\s*|["'])(?P<key>tool|agent)["']?\s*:\s*(?:["'](?P<name>[^"'\n]{1,200})["'])?"""
)
"""The mark of an action in an object that is not valid JSON."""
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
    try:
        return Reading(_actions(_DECODER.decode(_bare(spoken))))
    except (ValueError, RecursionError):
        found = list(islice(_objects(spoken), 2))
    if not found:
        return Reading([])
    start, actions = found[0]
    return Reading(actions, _before(spoken, start), (SECOND,) if len(found) > 1 else ())


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


def _objects(text: str) -> Iterator[tuple[int, list[Action]]]:
    """Yield the actions of each JSON object in a text, none of them within another, and of invalid
    JSON that is meant as an action.
    """
    position, effort = 0, _EFFORT + 20 * len(text)
    while effort > 0 and (match := _START.search(text, position)):
        start = match.start()
        try:
            value, position = _DECODER.raw_decode(text, start)
            actions = _actions(value)
        except (ValueError, RecursionError) as error:
            end = closing_brace(text, start)
            effort -= getattr(error, "pos", len(text)) + (end or start) - start
            # Nothing within a truncated object is an action.
            position = len(text) if end is None else start + 1
            further = _START.search(text, start + 1)
            meant = _MEANT.search(text, start, further.start() if further else len(text))
            actions = _repaired(text[start:], meant, error) if meant else []
            effort = 0 if meant else effort
        if actions:
            yield start, actions


def _repaired(text: str, meant: re.Match[str], error: Exception) -> list[Action]:
    """Return the actions of the object at the start of a text, without its trailing commas; or one
    with a fault.
    """
    try:
        return _actions(_DECODER.raw_decode(without_trailing_commas(text))[0])
    except (ValueError, RecursionError):
        fault = f"{INVALID}action: it is not valid JSON ({error}). {_WRITE}"
        name = valid_text(meant["name"] or FAULTY)
        return [
            Action(
                _delegate(name) if meant["key"] == "agent" else name,
                excerpt(text, MAX_KEPT),
                fault,
            )
        ]


def _actions(value: Any) -> list[Action]:
    """Return the actions in a JSON value; [] for any other value."""
    if not isinstance(value, dict):
        return []
    if value.get("tool"):
        return [_tool(value["tool"], value)]
    if value.get("agent"):
        return [_agent(value)]
    if isinstance(value.get("name"), str) and _is_call(value):
        return [_tool(value["name"], value)]
    return []


def _is_call(value: JsonObject) -> bool:
    return value.keys() <= _NAMED and any(
        isinstance(value.get(key), dict | str) for key in _ARGUMENTS
    )


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
