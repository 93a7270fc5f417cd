"""What Temporal shows of each activity and timer, on one line: known when it is scheduled, and recorded with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..excerpt import counted, one_line, utf8, utf8_bytes, visible
from ..json_types import JsonObject
from ..options import RunOptions
from ..tool_calls import ToolRequest
from .iteration_table import call_text

MAX_SUMMARY_BYTES = 200


def bounded_summary(text: str) -> str:
    """The text on one line, in at most `MAX_SUMMARY_BYTES` bytes."""
    shown = visible(one_line(text[:2000], MAX_SUMMARY_BYTES))
    if utf8_bytes(shown) <= MAX_SUMMARY_BYTES:
        return shown
    return utf8(shown)[: MAX_SUMMARY_BYTES - 3].decode(errors="ignore") + "…"


def turn_prefix(options: RunOptions) -> str:
    """What Temporal shows before an iteration's number: the turn of the conversation, if it has a number."""
    return "" if options.turn is None else f"turn {options.turn}, "


def call_summary(request: ToolRequest) -> str:
    """A tool call, as `get_weather(city='Paris')`."""
    return bounded_summary(call_text(request.name, request.arguments))


def model_call_summary(place: str, model: str, tokens: int, tools: Sequence[str]) -> str:
    """A model call: where, by whom, what the run has taken so far, and which tools have just answered."""
    parts = [place, model, f"{tokens:,} tokens so far" if tokens else ""]
    if tools:
        parts.append(f"after {_names(tools)}")
    return bounded_summary(" · ".join(filter(None, parts)))


def about_call(what: str, name: str, arguments: JsonObject) -> str:
    """Something else than the execution of a tool call, such as a guardrail's verdict on it."""
    return bounded_summary(f"{what} · {call_text(name, arguments)}")


def held_up_summary(place: str, why: str, kind: str, seconds: float) -> str:
    """A wait before a model call is tried again."""
    return bounded_summary(f"{place} · {why} in {seconds:.3g} s" + (f", after {kind}" if kind else ""))


def _names(tools: Sequence[str]) -> str:
    """`get_weather, 3 × search`, in the order of their first call."""
    times = Counter(tools)
    shown = [f"{count} × {name}" if count > 1 else name for name, count in list(times.items())[:4]]
    more = len(times) - len(shown)
    return ", ".join([*shown, *([f"{counted(more, 'other tool')}"] if more else [])])
