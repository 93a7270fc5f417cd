"""A run in Temporal's UI: its current details, its search attribute, a line for each activity and
timer.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from typing import Any

from temporalio import workflow
from temporalio.common import SearchAttributeUpdate

from ..commands import command_line, ways_to_settle
from ..events import LogEntry
from ..json_types import JsonObject
from ..protocol.descriptions import shown_name
from ..protocol.search_attributes import COST, STATUS
from ..text import code, count_of, format_usd, inert, link, one_line, utf8, utf8_bytes
from ..tool_calls import PendingApproval, ToolRequest
from .iterations import Iteration, call_text, iterations_of, lines_of, moment, run_path
from .run_state import RunState, ShownStatus

MAX_SUMMARY_BYTES = 200
MAX_LOOKED_AT = 300
"""The number of events searched for the tool calls of the last iteration."""


def bounded_summary(text: str) -> str:
    """Return the text on one line, in at most `MAX_SUMMARY_BYTES` bytes, without active Markdown
    links.
    """
    shown = inert(one_line(text[:2000], MAX_SUMMARY_BYTES))
    if utf8_bytes(shown) <= MAX_SUMMARY_BYTES:
        return shown
    return utf8(shown)[: MAX_SUMMARY_BYTES - 3].decode(errors="ignore") + "…"


def call_summary(request: ToolRequest) -> str:
    """Return a tool call, as `get_weather(city='Paris')`."""
    return bounded_summary(call_text(request.name, request.arguments))


def model_call_summary(label: str, model: str, tokens: int, tools: Sequence[str]) -> str:
    """Return a model call: iteration, model, the run's usage so far, and the tools that have just
    answered.
    """
    parts = [label, model, f"{tokens:,} tokens so far" if tokens else ""]
    if tools:
        parts.append(f"after {_names(tools)}")
    return bounded_summary(" · ".join(filter(None, parts)))


def next_model_call(state: RunState) -> str:
    """Return the model calls of the iteration that is about to begin."""
    model, label, loop = (
        state.input.agent.model,
        state.label_of(state.loop.iteration + 1),
        state.loop,
    )
    recent: Any = state.events.entries(state.events.last_seq - MAX_LOOKED_AT)
    names = [
        each.data["name"]
        for each in recent
        if (each.type, each.iteration) == ("tool_call_start", loop.iteration)
    ]
    return model_call_summary(label, (model and model.id) or "", loop.usage.total_tokens, names)


def about_call(what: str, name: str, arguments: JsonObject) -> str:
    """Return the summary of an activity about a tool call, such as a guardrail's verdict, other
    than its execution.
    """
    return bounded_summary(f"{what} · {call_text(name, arguments)}")


def held_up_summary(label: str, why: str, kind: str, seconds: float) -> str:
    """Return the summary of a wait before the next attempt at a model call."""
    return bounded_summary(
        f"{label} · {why} in {seconds:.3g} s" + (f", after {kind}" if kind else "")
    )


def _names(tools: Sequence[str]) -> str:
    """Return the names as `get_weather, 3 × search`, in the order of their first call."""
    times = Counter(tools)
    shown = [f"{count} × {name}" if count > 1 else name for name, count in list(times.items())[:4]]
    more = len(times) - len(shown)
    return ", ".join([*shown, *([f"{count_of(more, 'other tool')}"] if more else [])])


MAX_SHOWN = 5
"""The number of waiting calls, and of other agents' runs, that are shown."""


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
    return (
        [STATUS.value_set(status)]
        if is_new and STATUS.name in state.input.search_attributes
        else []
    )


def _upsert(updates: Sequence[SearchAttributeUpdate[Any]]) -> None:
    if updates:
        workflow.upsert_search_attributes(updates)


def details(state: RunState) -> str:
    """Return the current details, which are written only on request: they add no event to the
    history.

    They show the run's progress, its waits and its last iterations; "" before the first.
    """
    if state.begun is None and state.missing is None and state.end is None:
        return ""
    recent = iterations_of(state.events.entries(0))
    parts = [_head(state), *_state_lines(state, recent)], lines_of(recent), _totals(state)
    return "\n\n".join(filter(None, ("\n".join(part) for part in parts)))


def _head(state: RunState) -> str:
    title = " · ".join([code(shown_name(state.input.agent)), *state.label.split(", ")])
    return f"- {title} of at most {state.options.max_iterations:,}"


def _state_lines(state: RunState, recent: Sequence[Iteration]) -> list[str]:
    """Return the run's activity or wait, with the command to type if it waits for a person."""
    run_id = workflow.info().workflow_id
    if state.end is not None:
        return [_end_line(state.end)]
    pending = state.approvals.pending_approvals
    lines = [_approval_line(each, run_id) for each in pending[:MAX_SHOWN]]
    if len(pending) > MAX_SHOWN:
        lines.append(
            f"- and {len(pending) - MAX_SHOWN} more: `perdure status {shlex.quote(run_id)}`"
        )
    if missing := state.missing:
        what = ", ".join(map(code, missing.what[:MAX_SHOWN]))
        queue = code(missing.task_queue)
        lines.append(
            f"- **waits for a worker** of the task queue {queue} that has {what}, "
            f"{_since(missing.since)}"
        )
    for call in state.awaited.open_calls[:MAX_SHOWN]:
        shown = code(call_text(call.name, call.arguments), 200)
        until = "" if call.deadline is None else f", until {moment(call.deadline)}"
        lines.append(f"- **another system finishes** {shown}, awaited {_since(call.since)}{until}")
    for held in state.holds.held[:MAX_SHOWN]:
        how = code(command_line("go-on", run_id), 400)
        lines.append(
            f"- **is held** ({held.reason}) {_since(held.since)}: {code(held.why, 300)}. Type {how}"
        )
    if state.cancelled:
        lines.append("- **is being cancelled**: running calls have their grace period")
    if state.waits_for_rate:
        lines.append(f"- **waits for a permit**: calls of {code(state.waits_for_rate)} have a rate")
    if retry := state.held_up:
        why = (
            f"model retry, after {code(retry.kind)} {code(retry.why, 200)}, until "
            f"{moment(retry.until)}"
        )
        lines.append(f"- **is held up**: {why}")
    return lines or [f"- {_current_step(state, recent)}"]


def _current_step(state: RunState, recent: Sequence[Iteration]) -> str:
    if recent and (running := list(recent[-1].running.values())):
        names = ", ".join(code(one_line(call.data["name"][:200])) for call in running)
        return f"**runs** {names} {_since(running[0].time)}"
    return f"**calls the model** {_since(state.begun or state.loop.started_at)}"


def _totals(state: RunState) -> list[str]:
    loop, usage = state.loop, state.loop.usage
    cached = f" ({usage.cached_input_tokens:,} cached)" if usage.cached_input_tokens else ""
    lines = [
        f"- {count_of(loop.iterations, 'model call')}, {count_of(loop.tool_calls, 'tool call')}",
        f"- tokens: {usage.input_tokens:,} in{cached}, {usage.output_tokens:,} out",
    ]
    if usage.lost_tokens:
        lines.append(
            f"- of these about {usage.lost_tokens:,} in attempts that were lost and made again"
        )
    if cost := format_usd(loop.cost_usd, unpriced=loop.unpriced_calls):
        lines.append(f"- cost: {cost}")
    if state.children and state.end is None:
        links = [
            link(each, run_path(workflow.info().namespace, each))
            for each in state.children[:MAX_SHOWN]
        ]
        lines.append(f"- runs of other agents under way: {', '.join(links)}")
    return lines


def _approval_line(pending: PendingApproval, run_id: str) -> str:
    until = "" if pending.deadline is None else f", until {moment(pending.deadline)}"
    shown = code(call_text(pending.name, pending.arguments), 200)
    ways = ways_to_settle(run_id, pending)
    how = code(ways[0], 400)
    if pending.kind == "question":
        text = f"**asks** {code(pending.question or '', 300)} {_since(pending.since)}{until}"
        return f"- {text}. {_way(pending, how)}"
    why = f" ({code(pending.reason, 200)})" if pending.reason else ""
    text = f"**waits for approval** of {shown}{why} {_since(pending.since)}{until}"
    return f"- {text}. {_way(pending, how)}{', or `perdure deny`' if ways[1:] else ''}"


def _way(pending: PendingApproval, how: str) -> str:
    if pending.approvers is None or not pending.approvers.needs_vouch:
        return f"Type {how}"
    return f"{code(pending.approvers.in_words(), 200)} may decide, {how}"


def _since(time: float) -> str:
    return f"since {moment(time)}"


def _end_line(end: LogEntry) -> str:
    data: Any = end.data
    if end.type == "failed":
        return (
            f"- **failed** at {moment(end.time)}: {code(data['kind'])} {code(data['message'], 300)}"
        )
    return f"- **{'is done' if end.type == 'done' else 'was cancelled'}** at {moment(end.time)}"
