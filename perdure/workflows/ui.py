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
from ..events import LogEntry
from ..json_types import JsonObject
from ..protocol.descriptions import moment, shown_name
from ..protocol.markdown import code, inert, link, url_part
from ..protocol.search_attributes import COST, STATUS
from ..text import count_of, excerpt, format_usd, one_line, utf8, utf8_bytes, visible
from ..tool_calls import PendingApproval, ToolRequest
from .run_state import RunState, ShownStatus

MAX_SUMMARY_BYTES = 200
MAX_SHOWN = 5
"""The number of waiting calls, of an iteration's tool calls, and of other agents' runs that are
shown."""
MAX_ITERATIONS = 4
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


def run_link(run_id: str) -> str:
    """Return a link to a run's page in Temporal's UI."""
    namespace = workflow.info().namespace
    return link(run_id, f"/namespaces/{url_part(namespace)}/workflows/{url_part(run_id)}")


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

    They show the run's progress, its waits and its last iterations; "" before the first.
    """
    if state.begun is None and state.missing is None and state.ended is None:
        return ""
    title = f"{code(shown_name(state.input.agent))} · {' · '.join(state.label.split(', '))}"
    parts = (
        [f"{title} of at most {state.options.max_iterations:,}", *_standing(state)],
        iteration_lines(state.events.entries(0)),
        _totals(state),
    )
    return "\n\n".join("\n".join(f"- {line}" for line in part) for part in parts if part)


def _standing(state: RunState) -> list[str]:
    """Return the end of the run, its waits with the commands to type, or its current step."""
    if state.ended is not None and (last := state.events.entries(state.events.last_seq - 1)):
        data: Any = last[0].data
        why = f": {code(data['kind'])} {code(data['message'], 300)}" if data.get("kind") else ""
        return [f"**{state.ended}** at {moment(last[0].time)}{why}"]
    since = moment(state.begun or state.loop.started_at)
    return list(_waits(state)) or [f"**calls the model or tools** since {since}"]


def _waits(state: RunState) -> Iterator[str]:
    run_id = workflow.info().workflow_id
    for pending in state.approvals.pending_approvals[:MAX_SHOWN]:
        yield _approval_line(pending, run_id)
    if missing := state.missing:
        what, queue = ", ".join(map(code, missing.what[:MAX_SHOWN])), code(missing.task_queue)
        yield f"**waits for a worker** of the task queue {queue} that has {what}"
    for call in state.awaited.open_calls[:MAX_SHOWN]:
        shown = code(call_text(call.name, call.arguments), 200)
        until = "" if call.deadline is None else f", until {moment(call.deadline)}"
        yield f"**another system finishes** {shown}, awaited since {moment(call.since)}{until}"
    for held in state.holds.held[:MAX_SHOWN]:
        how, why = code(command_line("go-on", run_id), 400), code(held.why, 300)
        yield f"**is held** ({held.reason}) since {moment(held.since)}: {why}. Type {how}"
    if state.cancelled:
        yield "**is being cancelled**: running calls have their grace period"
    if state.waits_for_rate:
        yield f"**waits for a permit**: calls of {code(state.waits_for_rate)} have a rate"
    if retry := state.held_up:
        why = f"{code(retry.kind)} {code(retry.why, 200)}, until {moment(retry.until)}"
        yield f"**is held up**: model retry, after {why}"


def _approval_line(pending: PendingApproval, run_id: str) -> str:
    ways, approvers = ways_to_settle(run_id, pending), pending.approvers
    how, shown = code(ways[0], 400), code(call_text(pending.name, pending.arguments), 200)
    if pending.kind == "question":
        text = f"**asks** {code(pending.question or '', 300)}"
    else:
        why = f" ({code(pending.reason, 200)})" if pending.reason else ""
        text = f"**waits for approval** of {shown}{why}"
    until = "" if pending.deadline is None else f", until {moment(pending.deadline)}"
    way = f"Type {how}"
    if approvers is not None and approvers.needs_vouch:
        way = f"{code(approvers.in_words(), 200)} may decide, {how}"
    more = ", or `perdure deny`" if ways[1:] else ""
    return f"{text} since {moment(pending.since)}{until}. {way}{more}"


def iteration_lines(entries: Sequence[LogEntry]) -> list[str]:
    """Return the last iterations of these events, a line of Markdown each: tokens, cost, and the
    last tool calls with their outcome.
    """
    heads: dict[int, str] = {}
    calls: dict[int, dict[str, str]] = {}
    failed: set[str] = set()
    for entry in entries:
        data: Any = entry.data
        id = f"{entry.iteration} {entry.call_id}"
        match entry.type:
            case "llm_complete":
                heads[entry.iteration] = _model_line(data)
            case "tool_call_start":
                shown = code(call_text(data["name"], data["arguments"]), 60)
                calls.setdefault(entry.iteration, {})[id] = f"▶ {shown}"
            case "error":
                failed.add(id)
            case "tool_result" if id in (known := calls.get(entry.iteration, {})):
                is_bad = id in failed or data.get("isDenied") or data.get("isCancelled")
                known[id] = f"{'✗' if is_bad else '✓'}{known[id][1:]}"
    return [
        " · ".join([str(number), head, *list(calls.get(number, {}).values())[-MAX_SHOWN:]])
        for number, head in list(heads.items())[-MAX_ITERATIONS:]
    ]


def _model_line(data: Any) -> str:
    usage = data["usage"]
    tokens = f"{usage['input_tokens']:,} → {usage['output_tokens']:,} tokens"
    parts = (code(data.get("model", ""), 40), tokens, format_usd(data.get("costUsd")))
    return " · ".join(filter(None, parts))


def _totals(state: RunState) -> list[str]:
    loop, usage = state.loop, state.loop.usage
    counts = f"{count_of(loop.iterations, 'model call')}, {count_of(loop.tool_calls, 'tool call')}"
    cost = format_usd(loop.cost_usd, unpriced=loop.unpriced_calls)
    lines = [
        counts,
        f"tokens: {usage.input_tokens:,} in, {usage.output_tokens:,} out",
        *([f"cost: {cost}"] if cost else []),
    ]
    if state.children and state.ended is None:
        links = map(run_link, state.children[:MAX_SHOWN])
        lines.append(f"runs of other agents under way: {', '.join(links)}")
    return lines
