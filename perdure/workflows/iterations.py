"""The last iterations of a run, one line each: model, tokens, cost, and each tool call with its
outcome.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from reprlib import Repr
from typing import Any

from ..events import TERMINAL_EVENTS, LogEntry
from ..json_types import JsonObject
from ..text import code, excerpt, format_usd, one_line, url_chars, url_part, visible

MAX_LINES = 4
MAX_URL_CHARS = 4000
"""Limit for all lines together: Temporal's UI sends them in a URL, and some proxies limit URLs to 8
KB."""
MAX_CALLS = 5
"""Tool calls per line."""
MAX_ARGUMENTS = 2000
"""Arguments up to this many characters are parsed; longer ones show their raw beginning."""

_repr = Repr()
_repr.maxstring = _repr.maxother = 80
_repr.maxlist = _repr.maxdict = 8


def call_text(name: str, arguments: JsonObject | str) -> str:
    """Return a tool call on one line, as `name(key=value)`; other arguments than a JSON object are
    shown unparsed.
    """
    if isinstance(arguments, str):
        arguments = _parsed_arguments(arguments)
    if isinstance(arguments, str):
        shown = one_line(arguments[:MAX_ARGUMENTS], 200)
    else:
        given = [f"{key}={_short(value)}" for key, value in list(arguments.items())[:20]]
        shown = one_line(", ".join(given), 400)
    return visible(f"{one_line(name[:200])}({shown})")


@dataclass
class Iteration:
    """One iteration, as its events show it."""

    number: int
    model: str = ""
    """The model call, as Markdown like the other fields."""
    calls: list[str] = field(default_factory=list)
    """The calls that have ended."""
    running: dict[str, LogEntry] = field(default_factory=dict)
    """The start events of the other calls, by call id."""
    _problems: dict[str | None, str] = field(default_factory=dict)

    def take(self, entry: LogEntry) -> None:
        """Take the next event."""
        data: Any = entry.data
        match entry.type:
            case "llm_complete":
                usage = data["usage"]
                tokens = f"{usage['input_tokens']:,} → {usage['output_tokens']:,} tokens"
                parts = (code(data.get("model", ""), 40), tokens, format_usd(data.get("costUsd")))
                self.model = " · ".join(filter(None, parts))
            case "tool_call_start":
                self.running[entry.call_id or ""] = entry
            case "error":
                self._problems[entry.call_id] = data["message"]
            case "tool_result" if begun := self.running.pop(entry.call_id or "", None):
                is_stopped = data.get("isDenied") or data.get("isCancelled")
                problem = self._problems.pop(entry.call_id, data["result"] if is_stopped else "")
                why = problem.removeprefix(f"Error: Tool '{data['name']}' failed: ")
                self.calls.append(
                    f"✗ {_call(begun)} {code(why, 60)}" if why else f"✓ {_call(begun)}"
                )
            case terminal if terminal in TERMINAL_EVENTS:
                self.calls += [f"✗ {_call(begun)} has not ended" for begun in self.running.values()]
                self.running.clear()

    @property
    def line(self) -> str:
        """Return the iteration as a line of Markdown."""
        calls = [*self.calls, *(f"▶ {_call(begun)}" for begun in self.running.values())]
        more = [f"and {len(calls) - MAX_CALLS} more"] if len(calls) > MAX_CALLS else []
        return " · ".join([f"- {self.number}", self.model or "…", *calls[:MAX_CALLS], *more])


def iterations_of(entries: Sequence[LogEntry]) -> list[Iteration]:
    """Return the last iterations that these events belong to."""
    found: dict[int, Iteration] = {}
    for entry in entries:
        if entry.iteration:
            found.setdefault(entry.iteration, Iteration(entry.iteration)).take(entry)
    return list(found.values())[-MAX_LINES:]


def lines_of(iterations: Sequence[Iteration]) -> list[str]:
    """Return the latest iterations that fit, as Markdown."""
    lines = [each.line for each in iterations]
    while len(lines) > 1 and url_chars("\n".join(lines)) > MAX_URL_CHARS:
        del lines[0]
    return lines


def moment(time: float) -> str:
    """Return a time, given in seconds since the epoch, in readable form."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def run_path(namespace: str, run_id: str) -> str:
    """Return the path of a run in Temporal's UI."""
    return f"/namespaces/{url_part(namespace)}/workflows/{url_part(run_id)}"


def _call(begun: LogEntry) -> str:
    data: Any = begun.data
    return code(call_text(data["name"], data["arguments"]), 80)


def _parsed_arguments(arguments: str) -> JsonObject | str:
    if len(arguments) > MAX_ARGUMENTS:
        return arguments
    try:
        value = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return arguments
    return value if isinstance(value, dict) else arguments


def _short(value: Any) -> str:
    return repr(excerpt(value, 80)) if isinstance(value, str) else _repr.repr(value)
