"""The last iterations of a run as a Markdown table: model, tokens, what was said, each tool call and its outcome."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from reprlib import Repr
from typing import Any

from ..events import LogEntry
from ..excerpt import excerpt, one_line, visible
from ..json_types import JsonObject
from ..loop.tools import CANCELLED_TEXT
from ..markdown import code, link, url_chars, url_part
from ..messages import ModelReply
from ..money import format_usd

MAX_ROWS = 8
MAX_URL_CHARS = 5000
"""For all rows together, as Temporal's UI sends them in a URL; some proxies take 8 KB."""
MAX_CALLS = 5
"""Tool calls that one row has."""
MAX_ARGUMENTS = 2000
"""Characters of arguments that are read; of longer ones, the beginning is shown as it was written."""
DENIED = ("Tool denied", "Not answered")
_AFTER_THE_CHECKS = ("tool_call_start", "messages_updated")
"""By then, the output guardrail has seen what the model said."""

HEAD = "| #\u00a0 | model\u00a0call\u00a0 | said, and asked for |\n| ---: | --- | --- |"

_repr = Repr()
_repr.maxstring = _repr.maxother = 80
_repr.maxlist = _repr.maxdict = 8


def call_text(name: str, arguments: JsonObject | str) -> str:
    """A tool call on one line, as `name(key=value)`; arguments that are no JSON object as they were written."""
    shown = visible(one_line(name[:200]))
    if isinstance(arguments, str):
        arguments = _read(arguments)
    if isinstance(arguments, str):
        return f"{shown}({visible(one_line(arguments[:MAX_ARGUMENTS], 200))})"
    given = ", ".join(f"{key}={_short(value)}" for key, value in list(arguments.items())[:20])
    return visible(f"{shown}({one_line(given, 400)})")


def clock(time: float) -> str:
    """The time of day, for what happens now."""
    return datetime.fromtimestamp(time, UTC).strftime("%H:%M:%S UTC")


def duration(seconds: float) -> str:
    """So long, in milliseconds below a second."""
    return f"{seconds:,.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


@dataclass
class Call:
    """One tool call, as far as the events have told of it."""

    name: str
    text: str
    began: float
    waits: bool = False
    """For a person."""
    run_id: str | None = None
    """The run of another agent that executes it."""
    problem: str | None = None
    result: str | None = None
    """The beginning of it; None until there is one."""
    seconds: float = 0.0

    def markdown(self, namespace: str) -> str:
        """The call, and how it ended or since when it runs."""
        shown = code(self.text, 120)
        if self.run_id is not None:
            shown += f" → {link(self.run_id, run_path(namespace, self.run_id))}"
        if self.result is None:
            what = "waits for a person" if self.waits else "runs"
            return f"▶ {shown} {what} since {clock(self.began)}"
        if self.problem is not None:
            why = self.problem.removeprefix(f"Error: Tool '{self.name}' failed: ")
            return f"✗ {shown} {duration(self.seconds)}: {code(why, 120)}"
        if self.result == CANCELLED_TEXT:
            return f"✗ {shown} cancelled"
        if self.result.startswith(DENIED):
            return f"✗ {shown} {code(self.result, 120)}"
        return f"✓ {shown} {duration(self.seconds)}"


@dataclass
class Row:
    """One iteration."""

    iteration: int
    began: float
    model: str = ""
    tokens: str = ""
    cost: str = ""
    said: str = ""
    calls: dict[str, Call] = field(default_factory=dict)
    """By id; of several calls with one id, those that have ended have another key."""
    names: list[str] = field(default_factory=list)
    """Of the tools that were called."""

    def markdown(self, namespace: str) -> str:
        """The row of the table."""
        took = "<br>".join(f"{part}\u00a0" for part in (self.model, self.tokens, self.cost) if part)
        return f"| {self.iteration}\u00a0 | {took} | {self._said(namespace)} |"

    @property
    def running(self) -> list[Call]:
        """Those of `calls` that have not ended."""
        return [call for call in self.calls.values() if call.result is None]

    def _said(self, namespace: str) -> str:
        parts = [code(self.said, 160)] if self.said else []
        parts += [call.markdown(namespace) for call in self.calls.values()]
        if (more := len(self.names) - len(self.calls)) > 0:
            parts.append(f"and {more} more")
        return "<br>".join(parts)


class IterationTable:
    """Follows the events of a run. Each iteration is put into words once, when the next one begins."""

    def __init__(self, namespace: str, rows: Sequence[str] = (), called_runs: int = 0) -> None:
        self._namespace = namespace
        self._rows = deque(rows, maxlen=MAX_ROWS)
        self.row: Row | None = None
        """The iteration in progress."""
        self.called_runs = called_runs
        """Runs of other agents that were called."""

    @property
    def rows(self) -> list[str]:
        """The rows that are shown, the one in progress last; fewer where they would be long."""
        rows = [*self._rows, *([self.row.markdown(self._namespace)] if self.row else [])][-MAX_ROWS:]
        left, first = MAX_URL_CHARS, len(rows)
        while first and (left := left - url_chars(rows[first - 1])) >= 0:
            first -= 1
        return rows[min(first, len(rows) - 1) :] if rows else []

    def markdown(self) -> str:
        """The table; "" before the first model call."""
        rows = self.rows
        return "\n".join([HEAD, *rows]) if rows else ""

    def follow(self, entry: LogEntry, reply: ModelReply | None, said: str) -> None:
        """Take in the next event; `reply` is the iteration's, and `said` its text, as far as they are known."""
        data: Any = entry.data
        match entry.type:
            case "llm_start":
                self._begin(entry)
            case "llm_complete" if self.row:
                usage = data["usage"]
                self.row.tokens = f"{usage['input_tokens']:,}\u00a0→\u00a0{usage['output_tokens']:,}"
                self.row.cost = format_usd(data.get("costUsd"))
                self.row.model = code((reply and reply.model) or "", 40)
            case "tool_call_start" if self.row:
                self._start(self.row, entry.call_id or "", data["name"], data["arguments"], entry.time)
            case "done" if self.row:
                self.row.said = data["response"]
            case "child_started":
                self.called_runs += 1
        if self.row and entry.type in _AFTER_THE_CHECKS and reply and reply.message.text and not self.row.said:
            self.row.said = excerpt(said, 400)
        if self.row and entry.call_id in self.row.calls:
            self._go_on(self.row, self.row.calls[entry.call_id], entry)

    def _begin(self, entry: LogEntry) -> None:
        if self.row is not None and self.row.iteration != entry.iteration:
            self._rows.append(self.row.markdown(self._namespace))
            self.row = None
        self.row = self.row or Row(entry.iteration, entry.time)

    def _start(self, row: Row, call_id: str, name: str, arguments: str, time: float) -> None:
        row.names.append(one_line(name[:200]))
        if call_id in row.calls:
            row.calls[f"{call_id} {len(row.names)}"] = row.calls.pop(call_id)
        if len(row.calls) < MAX_CALLS:
            row.calls[call_id] = Call(one_line(name[:200]), call_text(name, arguments), time)

    def _go_on(self, row: Row, call: Call, entry: LogEntry) -> None:
        data: Any = entry.data
        match entry.type:
            case "permission_requested":
                call.waits, call.began = True, entry.time
            case "permission_completed":
                call.waits, call.began = False, entry.time
            case "child_started":
                call.run_id = data["run_id"]
            case "error":
                call.problem = excerpt(data["message"], 400)
            case "tool_result":
                call.result, call.seconds = excerpt(data["result"], 400), entry.time - call.began


def run_path(namespace: str, run_id: str) -> str:
    """Where Temporal's UI shows a run."""
    return f"/namespaces/{url_part(namespace)}/workflows/{url_part(run_id)}"


def _read(arguments: str) -> JsonObject | str:
    if len(arguments) > MAX_ARGUMENTS:
        return arguments
    try:
        value = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return arguments
    return value if isinstance(value, dict) else arguments


def _short(value: Any) -> str:
    return repr(excerpt(value, 80)) if isinstance(value, str) else _repr.repr(value)
