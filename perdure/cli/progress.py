"""Shows on stderr what a run does, as it happens."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping

from ..commands import command_line, ways_to_decide
from ..declared_tools import ApprovalPolicy, needs_gateway
from ..events import RunEvent
from ..json_types import JsonView
from ..text import count_of, duration_text, format_usd, one_line
from .console import (
    Tone,
    describe_call,
    describe_decision,
    describe_fallback,
    describe_progress,
    describe_provider_tool,
    describe_step,
    describe_usage,
    describe_warning,
    say,
)

PROGRESS_SECONDS = 1.0
"""Between two lines about how far a tool is."""


class Progress:
    """Shows one event after another; streamed text continues its line until an event of another type ends it."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._mid_line = ""
        """The type of the events whose text has begun a line; "" for none."""
        self._told: dict[str | None, float] = {}
        self._failure: str | None = None
        self._said = SaidStatus()
        self.shown = 0
        """How many events were shown."""
        self.streamed_text = ""
        """As a `View` has it: nothing, for there is no terminal."""

    def show(self, event: RunEvent) -> None:
        """Write the event; types that matter to programs only are left out."""
        self.shown += 1
        if event.run_id and event.type not in _SHOWN_OF_CALLED:
            return
        if event.type in ("token", "thinking"):
            if self._mid_line != event.type:
                self.end_line()
            say(str(event.data.get("token", "")), "faint", end="")
            self._mid_line = event.type
        elif event.type == "tool_progress":
            self._show_progress(event)
        elif event.type == "tool_result" and self._failure and event.data.get("result") == self._failure:
            self._failure = None  # it was said as the error of the call
        elif event.type == "held":
            self.end_line()
            for line in held_lines(event, self._run_id):
                say(f"  {line}", "strong")
        elif event.type in SENTENCES:
            self.end_line()
            say(f"  {SENTENCES[event.type](event.data)}", "strong")
        elif event.type in _LINES and (event.type != "status" or self._said.is_new(event)):
            tone, text = _LINES[event.type]
            self._failure = event.data.get("message") if event.type == "error" else None
            self.end_line()
            say(text(event.data), tone)

    def show_request(self, event: RunEvent) -> None:
        """Write what waits for a person, and what to type in another terminal."""
        self.end_line()
        waiting, *commands = request_lines(
            event, self._run_id, describe_call(event.data["name"], event.data.get("arguments"))
        )
        say(f"  {waiting}", "strong")
        for command in commands:
            say(f"    {command}")

    def _show_progress(self, event: RunEvent) -> None:
        """At most one line a second for each call."""
        now = time.monotonic()
        if now - self._told.get(event.call_id, -math.inf) >= PROGRESS_SECONDS:
            self._told[event.call_id] = now
            self.end_line()
            say(f"    {describe_progress(event.data)}", "faint")

    def end_line(self) -> None:
        """End the line of streamed_text text, if one has begun."""
        if self._mid_line:
            say("")
            self._mid_line = ""


class SaidStatus:
    """Knows the last status that was shown: a limit that lasts is not told again at each attempt."""

    def __init__(self) -> None:
        self._last: tuple[object, ...] = ()

    def is_new(self, event: RunEvent) -> bool:
        """Return whether the event differs, apart from numbers and ids of requests."""
        said = f"{event.data.get('message', '')} {event.data.get('reason') or ''}"
        told = (event.run_id, event.iteration, re.sub(r"request \S+|\d+", "", said))
        is_new, self._last = told != self._last, told
        return is_new


def held_lines(event: RunEvent, run_id: str) -> tuple[str, str]:
    """Return why a run is held, and what to type in another terminal."""
    return hold_lines(event.data["reason"], event.data["message"], event.run_id or run_id)


def hold_lines(reason: str, why: str, run_id: str) -> tuple[str, str]:
    """Return the same of a hold that no event has told."""
    return (
        f"held ({reason}): {one_line(why, 500)}",
        f"let it go on, in another terminal: {command_line('go-on', run_id)}",
    )


def describe_handoff(data: JsonView) -> str:
    """Return as which agent the run goes on, for the data of a `handoff` event."""
    reason = one_line(data["reason"], 200)
    return f"the agent {data['name']} goes on{': ' + reason if reason else ''}"


def describe_going_on(data: JsonView) -> str:
    """Return who has let a held run go on, and with what."""
    changes = [f"{name} {value}" for name, value in {**data["options"], "model": data["model"]}.items() if value]
    by = f", let go on by {one_line(data['by'])}" if data["by"] else ""
    return one_line(f"goes on{by}{': ' if changes else ''}{', '.join(changes)}", 300)


def describe_sleep(data: JsonView) -> str:
    """Return for how long a run had no worker, and what it does now."""
    return f"no worker took the run up for {duration_text(data['seconds'])} (on_stale: {data['then']})"


def request_lines(event: RunEvent, run_id: str, call: str) -> tuple[str, ...]:
    """Return what waits for a person in the run, and the ways to decide; `call` describes the tool call."""
    kind, data = event.data.get("kind", "approval"), event.data
    reason = f" ({one_line(data['reason'])})" if data.get("reason") else ""
    named = (event.run_id or run_id, str(event.call_id), data.get("digest"))
    what = f"{call} waits for {'an answer' if kind == 'question' else 'approval'}{reason}"
    if needs_gateway(deciders := data.get("deciders")):
        who = one_line(ApprovalPolicy.model_validate(deciders).in_words(), 300)
        return f"{what}. May decide: {who}", *ways_to_decide(*named, kind=kind, needs_gateway=True)
    return f"{what}. In another terminal:", *ways_to_decide(*named, kind=kind)


def _result(data: JsonView) -> str:
    text = str(data.get("result", ""))
    lines = text.count("\n") + 1
    return f"    → {one_line(text, 90)}" + (f" ({count_of(lines, 'line')})" if lines > 1 else "")


def _usage(data: JsonView) -> str:
    cost = format_usd(data.get("costUsd"))
    return f"  model: {describe_usage(data.get('usage') or {})}{', ' + cost if cost else ''}"


def _message(data: JsonView) -> str:
    return f"  {data.get('message', '')}"


def _status(data: JsonView) -> str:
    reason = one_line(str(data.get("reason") or ""), 200)
    said = _message(data)
    return f"{said}{'' if said.endswith('.') else ':'} {reason}" if reason else said


SENTENCES: Mapping[str, Callable[[JsonView], str]] = {
    "cost_warning": describe_warning,
    "model_fallback": describe_fallback,
    "went_on": describe_going_on,
    "slept": describe_sleep,
    "handoff": describe_handoff,
    **dict.fromkeys(("permission_vote", "permission_escalated", "permission_completed"), describe_decision),
}
"""What is said of an event on a line of its own, here as on a terminal (`View`)."""
_LINES: dict[str, tuple[Tone, Callable[[JsonView], str]]] = {
    "llm_complete": ("faint", _usage),
    "provider_tool": ("faint", lambda data: f"  {describe_provider_tool(data)}"),
    "text_reset": ("faint", lambda data: "  the model begins its text anew"),
    "tool_call_start": ("call", lambda data: f"  {describe_call(data['name'], data.get('arguments'))}"),
    "progress": ("faint", lambda data: f"    {describe_step(data)}"),
    "child_started": ("faint", lambda data: f"    run {data['run_id']}"),
    "tool_result": ("faint", _result),
    "status": ("faint", _status),
    "error": ("bad", _message),
    "compaction_complete": (
        "faint",
        lambda data: f"  context trimmed: {count_of(data.get('removed', 0), 'message')} summarised",
    ),
    "compaction_failed": ("faint", _message),
}
_SHOWN_OF_CALLED = ("tool_call_start", "child_started", "error", "permission_completed", "held", "went_on", "slept")
"""What is shown of the runs of other agents, which may go on at the same time."""
