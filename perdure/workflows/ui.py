"""What Temporal shows of a run that is under way: its current details, and its status as a search attribute."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from temporalio import workflow
from temporalio.common import SearchAttributeUpdate

from ..commands import decision_command
from ..event_data import StatusData
from ..events import TERMINAL_EVENTS, EventLog, LogEntry
from ..loop.state import LoopState
from ..messages import JsonObject, ModelReply
from ..options import RunOptions
from ..protocol.descriptions import shown_name
from ..protocol.outcome import HeldUp
from ..protocol.run import RunInput, Shown
from ..protocol.search_attributes import COST, STATUS
from ..text import code, counted, format_usd, link, one_line, utf8, utf8_bytes, visible
from ..tool_calls import PendingApproval, ToolRequest
from .inbox import Inbox
from .iteration_table import IterationTable, call_text, run_path
from .offers import Offers

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


ShownStatus = Literal["running", "waiting", "done", "failed", "cancelled"]
SHOWN_AT_ONCE = frozenset(
    {"tool_call_start", "tool_result", "child_started", "status", "permission_completed", *TERMINAL_EVENTS}
)
"""Events that a reader of the details may wait for. The others are shown with the next of these."""
MAX_SHOWN = 5
"""Waiting calls, and runs of other agents."""


class Display:
    """Keeps what Temporal shows of one link of a run.

    Current details cost no event of the history, and are written when somebody asks for them. What they say of events
    is as of the last iteration's beginning, or as of the last change of a tool call or of something else that people
    may wait for; an iteration that is over is put into words only once.

    The status is written when it changes, the cost at the end, never for an iteration, and only where the run's start
    has set them: to change an attribute that is not registered would stop the run for ever.
    """

    def __init__(
        self, input: RunInput, state: LoopState, events: EventLog, inbox: Inbox, offers: Offers, children: Sequence[str]
    ) -> None:
        """`children` has the ids of the called runs that are under way."""
        info = workflow.info()
        shown = self._before = input.carried.shown if input.carried else Shown()
        self._input, self._state, self._events = input, state, events
        self._title = f"- {code(shown_name(input.agent))} · {turn_prefix(input.options).replace(', ', ' · ')}"
        self._inbox, self._offers, self._children = inbox, offers, children
        self._run_id, self._namespace = info.workflow_id, info.namespace
        self._table = IterationTable(self._namespace, shown.rows, shown.called_runs)
        self._seen = events.last_seq
        self._shows_status = STATUS.name in input.search_attributes
        self._shows_cost = COST.name in input.search_attributes
        self._status: ShownStatus = "running"
        self._held_up = ""
        self._is_shown = False
        self._end: LogEntry | None = None
        self._since = workflow.time()
        self.waits_for_rate: str | None = None
        """The rate that the next model call waits for."""
        self.held_up: HeldUp | None = None
        """Why a model call waits to be made again."""
        self.reply: ModelReply | None = None
        """The model's last one."""
        self.place = self.next_call = f"{turn_prefix(input.options)}iteration 1"
        """The iteration, and the summary of its model call."""

    def begin_iteration(self) -> None:
        """Show the run as it stands before an iteration, and put the iteration's model call into words."""
        state, model = self._state, self._input.agent.model
        self._since = workflow.time()
        self.show()
        self.status("running")
        names = self._table.row.names if self._table.row else ()
        self.place = f"{turn_prefix(self._input.options)}iteration {state.iteration + 1}"
        self.next_call = model_call_summary(
            self.place, (model.id if model else None) or "", state.usage.total_tokens, names
        )

    def hold_up(self, why: str, seconds: float) -> None:
        """Show that the run waits, and then goes on by itself."""
        self.show()
        self._held_up = f"{why}, until {_date(workflow.time() + seconds)}"

    def tell(self, text: str) -> None:
        """Emit a `status` event, and show the run as it stands."""
        self._events.append("status", self._state.iteration, StatusData(message=text), time=workflow.time())
        self.show()

    def show_waiting(self) -> None:
        """Show that a call has begun or ceased to wait for a person."""
        self.show()
        if not self._inbox.cancelled:
            self.status("waiting" if self._inbox.approvals.pending else "running")

    def status(self, status: ShownStatus) -> None:
        """Show where the run stands."""
        self._upsert(self._changed(status))

    def end(self, status: ShownStatus) -> None:
        """Show how the run has ended, and what it has cost; an unknown cost is none."""
        known = self._state.cost_usd
        cost = COST.value_unset() if known is None else COST.value_set(known)
        self._upsert([*self._changed(status), *([cost] if self._shows_cost else [])])
        self.show()

    def _changed(self, status: ShownStatus) -> list[SearchAttributeUpdate[Any]]:
        is_new, self._status = status != self._status, status
        return [STATUS.value_set(status)] if is_new and self._shows_status else []

    @staticmethod
    def _upsert(updates: Sequence[SearchAttributeUpdate[Any]]) -> None:
        if updates:
            workflow.upsert_search_attributes(updates)

    def show(self) -> None:
        """Show the events up to now in the current details."""
        self._read()
        self._held_up, self._is_shown = "", True

    def details(self) -> str:
        """The current details: how far the run is, what it waits for, its last iterations; "" before its first."""
        parts = [self._head(), *self._stands()], [self._table.markdown()], self._totals()
        return "\n\n".join(filter(None, ("\n".join(part) for part in parts))) if self._is_shown else ""

    def carried(self) -> Shown:
        """What the next link goes on with."""
        self._read()
        now = {"rows": self._table.rows, "called_runs": self._table.called_runs}
        return self._before.model_copy(update=now)

    def _read(self) -> None:
        for entry in self._events.entries(self._seen):
            self._table.follow(entry, self.reply, self._state.last_text)
            if entry.type in TERMINAL_EVENTS:
                self._end = entry
        self._seen = self._events.last_seq

    def _head(self) -> str:
        most = self._input.options.max_iterations
        return f"{self._title}iteration {max(self._state.iteration, 1)} of at most {most:,}"

    def _stands(self) -> list[str]:
        """What the run does or waits for, and what to type if it waits for a person."""
        if self._end is not None:
            return [_ended(self._end)]
        pending = self._inbox.approvals.pending
        lines = [_waiting(each, self._run_id) for each in pending[:MAX_SHOWN]]
        if len(pending) > MAX_SHOWN:
            lines.append(f"- and {len(pending) - MAX_SHOWN} more: `perdure status {shlex.quote(self._run_id)}`")
        if missing := self._offers.missing:
            what = ", ".join(map(code, missing.what[:MAX_SHOWN]))
            queue = code(missing.task_queue)
            lines.append(f"- **waits for a worker** of the task queue {queue} that has {what}, {_since(missing.since)}")
        if self._inbox.cancelled:
            lines.append("- **is being cancelled**: what runs is awaited for its grace period")
        if self.waits_for_rate:
            lines.append(f"- **waits for a permit**: calls of {code(self.waits_for_rate)} have a rate")
        if self._held_up:
            lines.append(f"- **is held up**: {self._held_up}")
        return lines or [f"- {self._does()}"]

    def _does(self) -> str:
        row = self._table.row
        if row is not None and (running := row.running):
            names = ", ".join(code(call.name) for call in running)
            return f"**runs** {names} {_since(min(call.began for call in running))}"
        return f"**calls the model** {_since(self._since)}"

    def _totals(self) -> list[str]:
        state, usage = self._state, self._state.usage
        cached = f" ({usage.cached_input_tokens:,} cached)" if usage.cached_input_tokens else ""
        lines = [
            f"- {counted(state.iterations, 'model call')}, {counted(state.tool_calls, 'tool call')}",
            f"- tokens: {usage.input_tokens:,} in{cached}, {usage.output_tokens:,} out",
        ]
        if cost := format_usd(state.cost_usd, unpriced=state.unpriced_calls):
            lines.append(f"- cost: {cost}")
        if runs := self._table.called_runs:
            links = [link(each, run_path(self._namespace, each)) for each in self._children[:MAX_SHOWN]]
            under_way = f"; under way: {', '.join(links)}" if links and self._end is None else ""
            lines.append(f"- runs of other agents: {runs:,}{under_way}")
        return lines


def _waiting(pending: PendingApproval, run_id: str) -> str:
    until = "" if pending.deadline is None else f", until {_date(pending.deadline)}"
    shown = code(call_text(pending.name, pending.arguments), 200)
    how = decision_command(run_id, pending.call_id, pending.digest, kind=pending.kind)
    if pending.kind == "question":
        text = f"**asks** {code(pending.question or '', 300)} {_since(pending.since)}{until}"
        return f"- {text}. Type {code(how, 400)}"
    why = f" ({code(pending.reason, 200)})" if pending.reason else ""
    text = f"**waits for approval** of {shown}{why} {_since(pending.since)}{until}"
    return f"- {text}. Type {code(how, 400)}, or `perdure deny`"


def _since(time: float) -> str:
    return f"since {_date(time)}"


def _date(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _ended(end: LogEntry) -> str:
    data: Any = end.data
    if end.type == "failed":
        return f"- **failed** at {_date(end.time)}: {code(data['kind'])} {code(data['message'], 300)}"
    return f"- **{'is done' if end.type == 'done' else 'was cancelled'}** at {_date(end.time)}"
