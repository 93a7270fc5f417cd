"""A run in Temporal's UI: its current details, its search attributes, the summary of each activity
and timer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from reprlib import Repr
from typing import Any

from temporalio import workflow
from temporalio.common import SearchAttributeUpdate

from ..commands import command_line, ways_to_settle
from ..json_types import JsonObject
from ..protocol.descriptions import moment
from ..protocol.markdown import code, inert
from ..protocol.search_attributes import COST, STATUS
from ..text import excerpt, one_line, utf8, utf8_bytes, visible
from ..tool_calls import ToolRequest
from .run_state import RunState, ShownStatus

MAX_SUMMARY_BYTES = 200
MAX_SHOWN = 5
"""The number of waiting calls that are shown."""
MAX_ARGUMENTS = 2000
"""Arguments up to this many characters are parsed; longer ones show their raw beginning."""

_repr = Repr()
_repr.maxstring = _repr.maxother = 80
_repr.maxlist = _repr.maxdict = 8


def bounded_summary(text: str) -> str:
    """Return the text on one line, in at most `MAX_SUMMARY_BYTES` bytes, without active Markdown
    links.
    """
    shown = inert(one_line(text[:2000], MAX_SUMMARY_BYTES))
    if utf8_bytes(shown) <= MAX_SUMMARY_BYTES:
        return shown
    return utf8(shown)[: MAX_SUMMARY_BYTES - 3].decode(errors="ignore") + "…"


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


def call_summary(request: ToolRequest) -> str:
    """Return a tool call, as `get_weather(city='Paris')`."""
    return bounded_summary(call_text(request.name, request.arguments))


def about_call(what: str, name: str, arguments: JsonObject) -> str:
    """Return the summary of an activity about a tool call, such as a guardrail's verdict, other
    than its execution.
    """
    return bounded_summary(f"{what} · {call_text(name, arguments)}")


def next_model_call(state: RunState) -> str:
    """Return the summary of the model calls of the iteration that is about to begin."""
    model, tokens = state.input.agent.model, state.loop.usage.total_tokens
    parts = [
        state.label_of(state.loop.iteration + 1),
        (model and model.id) or "",
        f"{tokens:,} tokens so far" if tokens else "",
    ]
    return bounded_summary(" · ".join(filter(None, parts)))


def held_up_summary(label: str, why: str, kind: str, seconds: float) -> str:
    """Return the summary of a wait before the next attempt at a model call."""
    after = f", after {kind}" if kind else ""
    return bounded_summary(f"{label} · {why} in {seconds:.3g} s{after}")


def show_status(state: RunState, status: ShownStatus) -> None:
    """Show the run's status as a search attribute: when it changes, not for each iteration.

    Only if the run's start has set it: changing an unregistered attribute would block the run for
    ever.
    """
    _upsert(_status_updates(state, status))


def show_waiting(state: RunState) -> None:
    """Show whether the run is held, or a call waits for a person."""
    if not state.cancelled:
        waits = bool(state.approvals.pending_approvals)
        show_status(state, "held" if state.holds.held else "waiting" if waits else "running")


def show_end(state: RunState, status: ShownStatus) -> None:
    """Show the run's outcome and cost; an unknown cost is not shown."""
    known = state.loop.cost_usd
    cost = COST.value_unset() if known is None else COST.value_set(known)
    has_cost = COST.name in state.input.search_attributes
    _upsert([*_status_updates(state, status), *([cost] if has_cost else [])])


def _status_updates(state: RunState, status: ShownStatus) -> list[SearchAttributeUpdate[Any]]:
    is_new, state.shown_status = status != state.shown_status, status
    is_set = STATUS.name in state.input.search_attributes
    return [STATUS.value_set(status)] if is_new and is_set else []


def _upsert(updates: Sequence[SearchAttributeUpdate[Any]]) -> None:
    if updates:
        workflow.upsert_search_attributes(updates)


def details(state: RunState) -> str:
    """Return the current details, which are written only on request: they add no event to the
    history.

    They show the run's waits for people, with the commands that end them.
    """
    return "\n".join(f"- {line}" for line in _waits(state))


def _waits(state: RunState) -> Iterator[str]:
    run_id = workflow.info().workflow_id
    for pending in state.approvals.pending_approvals[:MAX_SHOWN]:
        how = code(ways_to_settle(run_id, pending)[0], 400)
        asked = code(call_text(pending.name, pending.arguments), 200)
        what = f"**waits for approval** of {asked}"
        if pending.kind == "question":
            what = f"**asks** {code(pending.question or '', 300)}"
        yield f"{what} since {moment(pending.since)}. Type {how}"
    for held in state.holds.held[:MAX_SHOWN]:
        how, why = code(command_line("go-on", run_id), 400), code(held.why, 300)
        yield f"**is held** ({held.reason}) since {moment(held.since)}: {why}. Type {how}"
