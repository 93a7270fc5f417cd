"""Shows on stderr what a run does, as it happens."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from ..commands import decision_command, denial_command
from ..events import RunEvent
from ..text import counted, format_usd, one_line
from .console import (
    describe_call,
    describe_decision,
    describe_fallback,
    describe_progress,
    describe_provider_tool,
    describe_step,
    describe_warning,
    say,
)

PROGRESS_SECONDS = 1.0
"""Between two lines about how far a tool is."""


class Progress:
    """Shows one event after another; streamed text continues its line until another event ends it."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._mid_line = False
        self._told: dict[str | None, float] = {}
        self._failure: str | None = None
        self.shown = 0
        """How many events were shown."""
        self.streamed = ""
        """As a `View` has it: nothing, for there is no terminal."""

    def show(self, event: RunEvent) -> None:
        """Write the event; types that matter to programs only are left out."""
        self.shown += 1
        if event.run_id and event.type not in _SHOWN_OF_CALLED:
            return
        if event.type in ("token", "thinking"):
            say(str(event.data.get("token", "")), "faint", end="")
            self._mid_line = True
        elif event.type == "tool_progress":
            self._show_progress(event)
        elif event.type == "tool_result" and self._failure and event.data.get("result") == self._failure:
            self._failure = None  # it was said as the error of the call
        elif write := _WRITERS.get(event.type):
            self._failure = event.data.get("message") if event.type == "error" else None
            self.end_line()
            write(event, event.run_id or self._run_id)

    def show_request(self, event: RunEvent) -> None:
        """Write what waits for a person, and what to type in another terminal."""
        self.end_line()
        _show_request(event, event.run_id or self._run_id)

    def _show_progress(self, event: RunEvent) -> None:
        """At most one line a second for each call."""
        now = time.monotonic()
        if now - self._told.get(event.call_id, -math.inf) >= PROGRESS_SECONDS:
            self._told[event.call_id] = now
            self.end_line()
            say(f"    {describe_progress(event.data)}", "faint")

    def end_line(self) -> None:
        """End the line of streamed text, if one has begun."""
        if self._mid_line:
            say("")
            self._mid_line = False


def _call_of(event: RunEvent) -> str:
    return describe_call(event.data["name"], event.data.get("arguments"))


def _show_call(event: RunEvent, run_id: str) -> None:
    say(f"  {_call_of(event)}", "call")


def _show_result(event: RunEvent, run_id: str) -> None:
    text = str(event.data.get("result", ""))
    lines = text.count("\n") + 1
    say(f"    → {one_line(text, 90)}" + (f" ({counted(lines, 'line')})" if lines > 1 else ""), "faint")


def _show_step(event: RunEvent, run_id: str) -> None:
    say(f"    {describe_step(event.data)}", "faint")


def _show_called(event: RunEvent, run_id: str) -> None:
    say(f"    run {event.data['run_id']}", "faint")


def _show_usage(event: RunEvent, run_id: str) -> None:
    usage = event.data.get("usage") or {}
    cost = format_usd(event.data.get("costUsd"))
    tokens = f"{usage.get('input_tokens', 0)} tokens in, {usage.get('output_tokens', 0)} out"
    say(f"  model: {tokens}{', ' + cost if cost else ''}", "faint")


def _show_warning(event: RunEvent, run_id: str) -> None:
    say(f"  {describe_warning(event.data)}", "strong")


def _show_fallback(event: RunEvent, run_id: str) -> None:
    say(f"  {describe_fallback(event.data)}", "strong")


def _show_provider_tool(event: RunEvent, run_id: str) -> None:
    say(f"  {describe_provider_tool(event.data)}", "faint")


def _show_message(event: RunEvent, run_id: str) -> None:
    say(f"  {event.data.get('message', '')}", "bad" if event.type == "error" else "faint")


def _show_compaction(event: RunEvent, run_id: str) -> None:
    say(f"  context trimmed: {counted(event.data.get('removed', 0), 'message')} summarised", "faint")


def _show_request(event: RunEvent, run_id: str) -> None:
    kind = event.data.get("kind", "approval")
    reason = f" ({one_line(event.data['reason'])})" if event.data.get("reason") else ""
    what = "an answer" if kind == "question" else "approval"
    say(f"  {_call_of(event)} waits for {what}{reason}. In another terminal:", "strong")
    named = (run_id, str(event.call_id), event.data.get("digest"))
    say(f"    {decision_command(*named, kind=kind)}")
    say(f"    {denial_command(*named)}")


def _show_approval(event: RunEvent, run_id: str) -> None:
    say(f"  {describe_decision(event.data)}", "strong")


def _show_reset(event: RunEvent, run_id: str) -> None:
    say("  the model begins its text anew", "faint")


_WRITERS: dict[str, Callable[[RunEvent, str], None]] = {
    "llm_complete": _show_usage,
    "cost_warning": _show_warning,
    "model_fallback": _show_fallback,
    "provider_tool": _show_provider_tool,
    "text_reset": _show_reset,
    "tool_call_start": _show_call,
    "progress": _show_step,
    "child_started": _show_called,
    "tool_result": _show_result,
    "status": _show_message,
    "error": _show_message,
    "compaction_complete": _show_compaction,
    "compaction_failed": _show_message,
    "permission_completed": _show_approval,
}
_SHOWN_OF_CALLED = ("tool_call_start", "child_started", "error", "permission_completed")
"""What is shown of the runs of other agents, which may go on at the same time."""
