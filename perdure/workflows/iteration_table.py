"""The last iterations of a run as a Markdown table: model, tokens, what was said, each tool call and its outcome."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from reprlib import Repr
from typing import Any, Literal

from ..events import LogEntry
from ..json_types import JsonObject
from ..messages import ModelReply
from ..text import code, excerpt, format_usd, link, one_line, url_chars, url_part, visible

MAX_ROWS = 8
MAX_URL_CHARS = 4000
"""For all rows but the one in progress, as Temporal's UI sends them in a URL; some proxies take 8 KB."""
MAX_CALLS = 5
"""Tool calls that one row has."""
MAX_ARGUMENTS = 2000
"""Characters of arguments that are read; of longer ones, the beginning is shown as it was written."""
_AFTER_THE_CHECKS = ("tool_call_start", "messages_updated")
"""By then, the output guardrail has seen what the model said."""

HEAD = "| #\u00a0 | model\u00a0call\u00a0 | said, and asked for |\n| ---: | --- | --- |"

_repr = Repr()
_repr.maxstring = _repr.maxother = 80
_repr.maxlist = _repr.maxdict = 8


def call_text(name: str, arguments: JsonObject | str) -> str:
    """Return a tool call on one line, as `name(key=value)`; arguments that are no JSON object as they were written."""
    if isinstance(arguments, str):
        arguments = _parsed_arguments(arguments)
    if isinstance(arguments, str):
        shown = one_line(arguments[:MAX_ARGUMENTS], 200)
    else:
        given = [f"{key}={_short(value)}" for key, value in list(arguments.items())[:20]]
        shown = one_line(", ".join(given), 400)
    return visible(f"{one_line(name[:200])}({shown})")


def clock(time: float) -> str:
    """Return the time of day, for what happens now."""
    return datetime.fromtimestamp(time, UTC).strftime("%H:%M:%S UTC")


def duration(seconds: float) -> str:
    """So long, in milliseconds below a second."""
    return f"{seconds:,.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


@dataclass
class CallLine:
    """One tool call, as far as the events have told of it."""

    name: str
    arguments: str
    """As many of them as are shown."""
    began: float
    waits: bool = False
    """For a person."""
    problem: str | None = None
    run: str = ""
    """The run that it has started, as Markdown."""
    mark: Literal["", "✓", "✗"] = ""
    """Whether it ended well; "" while it runs."""
    outcome: str = ""
    """How it ended, as Markdown."""

    def end(self, result: str, time: float, *, is_denied: bool = False, is_cancelled: bool = False) -> None:
        """Note the result."""
        took = duration(time - self.began)
        if self.problem is not None:
            why = self.problem.removeprefix(f"Error: Tool '{self.name}' failed: ")
            self.mark, self.outcome = "✗", f"{took}: {code(why, 120)}"
        elif is_cancelled:
            self.mark, self.outcome = "✗", "cancelled"
        elif is_denied:
            self.mark, self.outcome = "✗", code(result, 120)
        else:
            self.mark, self.outcome = "✓", took

    @property
    def markdown(self) -> str:
        """Call, and how it ended or since when it runs."""
        running = f"{'waits for a person' if self.waits else 'runs'} since {clock(self.began)}"
        shown = code(call_text(self.name, self.arguments), 120)
        return f"{self.mark or '▶'} {shown}{self.run} {self.outcome if self.mark else running}"


@dataclass
class Row:
    """One iteration."""

    iteration: int
    model: str = ""
    tokens: str = ""
    cost: str = ""
    said: str = ""
    """As Markdown, like the others."""
    calls: dict[str, CallLine] = field(default_factory=dict)
    """By id; of several calls with one id, those that have ended have another key."""
    names: list[str] = field(default_factory=list)
    """Of the tools that were called."""

    @property
    def markdown(self) -> str:
        """Row of the table."""
        took = "<br>".join(f"{part}\u00a0" for part in (self.model, self.tokens, self.cost) if part) or "…"
        did = [self.said, *[call.markdown for call in self.calls.values()]]
        if (more := len(self.names) - len(self.calls)) > 0:
            did.append(f"and {more} more")
        return f"| {self.iteration}\u00a0 | {took} | {'<br>'.join(filter(None, did))} |"

    @property
    def running_calls(self) -> list[CallLine]:
        """Those of `calls` that have not ended."""
        return [call for call in self.calls.values() if not call.mark]


class IterationTable:
    """Follows the events of a run. Iterations are put into words when they are asked for, those that are over once."""

    def __init__(self, namespace: str, rows: Sequence[str] = (), called_runs: int = 0) -> None:
        self._namespace = namespace
        self._before = _fitting_rows(list(rows))
        self._ended: list[Row] = []
        """Iterations that are over, and not put into words yet."""
        self.row: Row | None = None
        """The iteration in progress."""
        self.called_runs = called_runs
        """Runs of other agents that were called."""

    @property
    def rows(self) -> list[str]:
        """Rows that are shown, the one in progress last."""
        if self._ended:
            self._before = _fitting_rows([*self._before, *[row.markdown for row in self._ended]])
            self._ended = []
        return [*self._before, self.row.markdown] if self.row else list(self._before)

    def markdown(self) -> str:
        """Return the table; "" before the first model call."""
        rows = self.rows
        return "\n".join([HEAD, *rows]) if rows else ""

    def follow(self, entry: LogEntry, reply: ModelReply | None, said: str) -> None:
        """Take in the next event; `reply` is the last one, and `said` the text of the event's own iteration, "" where
        that is not known.
        """
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
            case "done" if self.row and not self.row.names:
                self.row.said = code(data["response"], 160)
            case "child_started":
                self.called_runs += 1
            case "done" | "failed" | "cancelled" if self.row:
                for call in self.row.running_calls:
                    call.mark, call.outcome = "✗", "has not ended"
        is_own = self.row is not None and self.row.iteration == entry.iteration
        if self.row and is_own and said and entry.type in _AFTER_THE_CHECKS and not self.row.said:
            self.row.said = code(said, 160)
        if self.row and entry.call_id in self.row.calls:
            self._go_on(self.row, self.row.calls[entry.call_id], entry)

    def _begin(self, entry: LogEntry) -> None:
        if self.row is not None and self.row.iteration != entry.iteration:
            self._ended = [*self._ended[1 - MAX_ROWS :], self.row]
            self.row = None
        self.row = self.row or Row(entry.iteration)

    def _start(self, row: Row, call_id: str, name: str, arguments: str, time: float) -> None:
        row.names.append(one_line(name[:200]))
        if call_id in row.calls:
            row.calls[f"{call_id} {len(row.names)}"] = row.calls.pop(call_id)
        if len(row.calls) < MAX_CALLS:
            row.calls[call_id] = CallLine(row.names[-1], arguments[: MAX_ARGUMENTS + 1], time)

    def _go_on(self, row: Row, call: CallLine, entry: LogEntry) -> None:
        data: Any = entry.data
        match entry.type:
            case "permission_requested":
                call.waits, call.began = True, entry.time
            case "permission_completed":
                call.waits, call.began = False, entry.time
            case "child_started":
                call.run += f" → {link(data['run_id'], run_path(self._namespace, data['run_id']))}"
            case "error":
                call.problem = excerpt(data["message"], 400)
            case "tool_result":
                kinds = {"is_denied": data.get("isDenied", False), "is_cancelled": data.get("isCancelled", False)}
                call.end(data["result"], entry.time, **kinds)


def _fitting_rows(rows: list[str]) -> list[str]:
    """The last rows, as many as are shown above the one in progress."""
    left, first = MAX_URL_CHARS, len(rows)
    while first > max(0, len(rows) - MAX_ROWS + 1) and (left := left - url_chars(rows[first - 1])) >= 0:
        first -= 1
    return rows[first:]


def run_path(namespace: str, run_id: str) -> str:
    """Return where Temporal's UI shows a run."""
    return f"/namespaces/{url_part(namespace)}/workflows/{url_part(run_id)}"


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
