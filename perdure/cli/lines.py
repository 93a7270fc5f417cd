"""Describes a run's events: a sentence for each type, and the work in progress."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from ..commands import command_line, ways_to_decide
from ..conversation import Append
from ..declared_tools import ApprovalPolicy, needs_gateway
from ..events import TERMINAL_EVENTS, RunEvent
from ..json_types import JsonView
from ..messages import Message
from ..text import count_of, format_usd, one_line
from .console import Tone, decision_text, describe_call, describe_seconds, describe_usage

PROGRESS_SECONDS = 1.0
"""Between two lines about a tool's progress."""


class Line(NamedTuple):
    """A line and its style."""

    text: str
    tone: Tone = "faint"


def _model_call(data: JsonView) -> str:
    used = [describe_usage(data.get("usage") or {}), format_usd(data.get("costUsd"))]
    return f"model: {', '.join(filter(None, used))}"


def describe_decision(data: JsonView) -> str:
    """Return the call and a person's decision about it, or one of several, or the person asked
    now.
    """
    if "to" in data:
        return f"{data['name']}: not decided, {data['to']} is asked, too"
    if vote := data.get("vote"):
        said = decision_text({**vote, "by": vote["name"], "approved": True, "vouched": True})
        return f"{data['name']} {said} ({data['votes']} of {data['count']})"
    return f"{data['name']} {decision_text(data)}"


def progress_text(data: JsonView) -> str:
    """Return `done/total text` on one short line."""
    total = "" if data.get("total") is None else f"/{data['total']:,.10g}"
    return one_line(f"{data['done']:,.10g}{total} {data.get('text', '')}")


def _result(data: JsonView) -> str:
    text = str(data.get("result", ""))
    lines = text.count("\n") + 1
    return f"→ {one_line(text, 90)}" + (f" ({count_of(lines, 'line')})" if lines > 1 else "")


def _status(data: JsonView) -> str:
    reason, text = one_line(str(data.get("reason") or ""), 200), str(data.get("message", ""))
    return f"{text}{'' if text.endswith('.') else ':'} {reason}" if reason else text


def _provider_tool(data: JsonView) -> str:
    details = json.dumps(data["details"], ensure_ascii=False) if data["details"] else ""
    return f"the provider's {data['name']}: {data['status']} {one_line(details, 200)}".rstrip()


def _handoff(data: JsonView) -> str:
    reason = one_line(data["reason"], 200)
    return f"the agent {data['name']} goes on{': ' + reason if reason else ''}"


def _went_on(data: JsonView) -> str:
    values = {**data["options"], "model": data["model"]}
    changes = ", ".join(f"{name} {value}" for name, value in values.items() if value)
    by = f" by {one_line(data['by'])}" if data["by"] else ""
    return one_line(f"continued{by}{': ' if changes else ''}{changes}", 300)


Sentence: TypeAlias = Callable[[JsonView], str] | str
"""A function of an event's data, or a text with places for the data."""
SENTENCES: Mapping[str, tuple[Tone, Sentence]] = {
    "llm_complete": ("faint", _model_call),
    "provider_tool": ("faint", _provider_tool),
    "text_reset": ("faint", "the model starts its text over"),
    "tool_call_start": ("call", lambda data: describe_call(data["name"], data.get("arguments"))),
    "tool_progress": ("faint", lambda data: one_line(f"{data['name']}: {progress_text(data)}")),
    "progress": ("faint", "step {step} of {max_steps}"),
    "child_started": ("faint", "run {run_id}"),
    "tool_result": ("faint", _result),
    "status": ("faint", _status),
    "error": ("bad", "{message}"),
    "compaction_failed": ("faint", "{message}"),
    "compaction_complete": (
        "faint",
        lambda data: f"context trimmed: {count_of(data.get('removed', 0), 'message')} summarised",
    ),
    "model_fallback": (
        "strong",
        "{failed} failed ({kind}); {model} is called in its place: {message}",
    ),
    "handoff": ("strong", _handoff),
    "held": ("strong", lambda data: f"held ({data['reason']}): {one_line(data['message'], 500)}"),
    "went_on": ("strong", _went_on),
    "permission_vote": ("strong", describe_decision),
    "permission_completed": ("strong", describe_decision),
}
"""Event type → the style of its sentence, and the sentence."""
_OF_A_CALL = ("tool_progress", "progress", "child_started", "tool_result")
"""Types that are shown below the line of their tool call."""


def sentence(event: RunEvent) -> str:
    """Return the sentence of an event; for a type that has none, its values."""
    if found := SENTENCES.get(event.type):
        said = found[1]
        return said.format_map(event.data) if isinstance(said, str) else said(event.data)
    if event.type == "permission_requested":
        return describe_call(event.data["name"], event.data.get("arguments"))
    return "  ".join(str(value) for name, value in event.data.items() if name != "messages")


def how_to_go_on(run_id: str) -> str:
    """Return the command that resumes a held run."""
    return f"continue it from another terminal: {command_line('go-on', run_id)}"


def request_lines(event: RunEvent, run_id: str) -> Iterator[Line]:
    """Yield the run's pending approval or question, and the commands for deciding in another
    terminal.
    """
    data, kind = event.data, event.data.get("kind", "approval")
    reason = f" ({one_line(data['reason'])})" if data.get("reason") else ""
    approvers, where = data.get("approvers"), "In another terminal:"
    if restricted := needs_gateway(approvers):
        policy = ApprovalPolicy.model_validate(approvers)
        where = f"May decide: {one_line(policy.in_words(), 300)}"
    waits = f"waits for {'an answer' if kind == 'question' else 'approval'}{reason}"
    call = describe_call(data["name"], data.get("arguments"))
    yield Line(f"  {call} {waits}. {where}", "strong")
    named = (event.run_id or run_id, str(event.call_id), data.get("digest"))
    for command in ways_to_decide(*named, kind=kind, needs_gateway=restricted):
        yield Line(f"    {command}", "plain")


def typed_text(message: Message) -> str:
    """Return a user's message in its form on a terminal."""
    return "> " + message.text.replace("\n", "\n  ")


Key: TypeAlias = tuple[str | None, int, str | None]
"""The run, the iteration and the id of a tool call; without one, the call of the model."""


@dataclass
class Doing:
    """One piece of work in progress."""

    what: str
    since: float
    """Seconds since the epoch, waits for persons excluded once they are over."""
    depth: int
    state: str = ""
    """Its last known state."""
    waits_since: float | None = None
    """Set while waiting for a person."""
    shown: float = 0.0
    """The time of the last progress line."""

    def line(self) -> Line:
        """Return the work, for a live view."""
        indent, now = "  " * self.depth, time.time()
        if self.waits_since is not None:
            waited = describe_seconds(now - self.waits_since)
            return Line(f"{indent}? {waited} waits for a person: {self.what}", "strong")
        took = describe_seconds(now - self.since)
        return Line(f"{indent}… {took} {self.what}  {self.state}".rstrip(), "call")


class Story:
    """Turns a run's events, including its child runs', into lines, and tracks the work in progress.

    Args:
        run_id: The watched run.
        is_live: Whether the view shows work in progress all the time; else lines report the tools'
            progress.
        is_shown: Whether a message that the run has read is on the terminal already; None shows no
            messages.
    """

    def __init__(
        self, run_id: str, *, is_live: bool = False, is_shown: Callable[[str], bool] | None = None
    ) -> None:
        self._run_id = run_id
        self._is_live = is_live
        self._is_shown = is_shown
        self._doing: dict[Key, Doing] = {}
        self._depths: dict[str | None, int] = {None: 1}
        self._failed: set[Key] = set()
        self._status: tuple[object, ...] = ()
        self._has_begun = False

    def lines(self, event: RunEvent) -> Iterator[Line]:
        """Yield the lines of an event, and track the work that it starts or ends."""
        key = (event.run_id, event.iteration, event.call_id)
        is_worth_a_line = self._note(event, key)
        if event.type == "messages_updated":
            yield from self._read(event)
        if not is_worth_a_line or event.type not in SENTENCES:
            return
        indent = "  " * (self._depth(event) + (event.type in _OF_A_CALL))
        tone, _ = SENTENCES[event.type]
        if event.type == "tool_result" and key in self._failed:
            tone = "bad"
        yield Line(f"{indent}{sentence(event)}{self._took(event, key)}", tone)
        if event.type == "held":
            yield Line(f"{indent}{how_to_go_on(event.run_id or self._run_id)}", "strong")

    def _depth(self, event: RunEvent) -> int:
        return self._depths.get(event.run_id, 2)

    def _note(self, event: RunEvent, key: Key) -> bool:
        """Return whether the event is worth a line."""
        doing = self._doing.get(key)
        match event.type:
            case "llm_start" | "tool_call_start":
                is_call = event.type == "tool_call_start"
                what = sentence(event) if is_call else f"iteration {event.iteration}"
                self._doing[key] = Doing(what, event.time, self._depth(event))
            case "child_started":
                self._depths[event.data["run_id"]] = self._depth(event) + 1
            case "tool_progress" | "progress":
                is_tool = event.type == "tool_progress"
                if doing:
                    doing.state = progress_text(event.data) if is_tool else sentence(event)
                return not self._is_live and _is_due(event, doing)
            case "status":
                return self._is_new_status(event)
            case "error" if event.call_id is not None:
                self._failed.add(key)
                return False  # The result has it.
            case "permission_requested" if doing:
                doing.waits_since = event.time
            case "permission_completed" if doing and doing.waits_since is not None:
                doing.since += event.time - doing.waits_since
                doing.waits_since = None
            case _ if event.type in TERMINAL_EVENTS and event.run_id is None:
                self._doing.clear()
        return True

    def _is_new_status(self, event: RunEvent) -> bool:
        """Return whether it differs from the last one, apart from numbers and ids: a lasting limit
        is reported once.
        """
        text = _status(event.data)
        if doing := self._doing.get((event.run_id, event.iteration, None)):
            doing.state = one_line(text)
        last = self._status
        self._status = event.run_id, event.iteration, re.sub(r"request \S+|\d+", "", text)
        return self._status != last

    def _took(self, event: RunEvent, key: Key) -> str:
        """End the work that the event ends; return its duration if worth showing."""
        ends = event.type in ("llm_complete", "tool_result")
        doing = self._doing.pop(key, None) if ends else None
        took = event.time - doing.since if doing else 0.0
        return f", {describe_seconds(took)}" if took >= 1 else ""

    def _read(self, event: RunEvent) -> Iterator[Line]:
        """Yield the messages that the run has read and that were typed elsewhere."""
        if event.run_id is not None or self._is_shown is None:
            return
        appended = [each for each in event.operations if isinstance(each, Append)]
        for message in [each for change in appended for each in change.messages]:
            is_new = self._has_begun and message.role == "user"
            if is_new and not self._is_shown(message.text):
                yield Line(typed_text(message), "strong")
        self._has_begun = True

    def under_way(self) -> list[Line]:
        """Return a line for each piece of work in progress, ordered by start."""
        return [doing.line() for doing in self._doing.values()]


def _is_due(event: RunEvent, doing: Doing | None) -> bool:
    """Return whether a tool's progress line is due: at most one a second for each call."""
    now = time.monotonic()
    if doing is None or event.type == "progress" or now - doing.shown >= PROGRESS_SECONDS:
        if doing:
            doing.shown = now
        return True
    return False
