"""What Temporal shows of a run that is under way: its current details, and its status as a search attribute."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

from temporalio import workflow

from ..agent import Agent
from ..excerpt import one_line
from ..loop.state import LoopState
from ..options import RunOptions
from ..protocol.run import PendingApproval, RunInput
from ..protocol.search_attributes import STATUS
from ..tool_calls import ToolRequest

ShownStatus = Literal["running", "waiting", "done", "failed", "cancelled"]
MAX_SHOWN = 10
"""Waiting calls."""


class Display:
    """Keeps what Temporal shows of one link of a run.

    The status is written when it changes, never for an iteration, and only where the run's start has set it: to change
    an attribute that is not registered would stop the run for ever.
    """

    def __init__(self, input: RunInput) -> None:
        self._agent = input.agent
        self._turn = turn_prefix(input.options)
        self._shows_status = STATUS.name in input.search_attributes
        self._status: ShownStatus = "running"

    def progress(self, state: LoopState, waiting: Sequence[PendingApproval] = ()) -> None:
        """Show how far the run is, and what waits for a person."""
        workflow.set_current_details(describe_progress(self._agent, state, waiting, turn=self._turn))
        self.status("waiting" if waiting else "running")

    def status(self, status: ShownStatus) -> None:
        """Show where the run stands."""
        if status != self._status and self._shows_status:
            workflow.upsert_search_attributes([STATUS.value_set(status)])
        self._status = status


def describe_progress(
    agent: Agent, state: LoopState, waiting: Sequence[PendingApproval] = (), *, turn: str = ""
) -> str:
    """The workflow's current details, as Markdown."""
    iteration = state.iteration if waiting else state.iteration + 1
    lines = [
        f"**{agent.name or 'agent'}**, {turn}iteration {iteration}",
        "",
        *[_waiting(pending) for pending in waiting[:MAX_SHOWN]],
        f"- model calls: {state.iterations}",
        f"- tool calls: {state.tool_calls}",
        f"- tokens: {state.usage.input_tokens} in, {state.usage.output_tokens} out",
    ]
    if state.last_calls:
        lines.append(f"- last asked for: `{state.last_calls[:300]}`")
    return "\n".join(lines)


def _waiting(pending: PendingApproval) -> str:
    since = datetime.fromtimestamp(pending.since, UTC).isoformat(timespec="seconds")
    if pending.deadline is not None:
        since += f" until {datetime.fromtimestamp(pending.deadline, UTC).isoformat(timespec='seconds')}"
    if pending.kind == "question":
        what = f"**asks** `{one_line(pending.question or '', 300)}`"
    else:
        what = f"**waits for approval** of `{one_line(f'{pending.name}({pending.arguments})', 300)}`"
    return f"- {what} since {since}: call id `{one_line(pending.call_id)}`"


def turn_prefix(options: RunOptions) -> str:
    """What Temporal shows before an iteration's number: the turn of the conversation, if it has a number."""
    return "" if options.turn is None else f"turn {options.turn}, "


def call_summary(request: ToolRequest) -> str:
    """A tool call in one line of at most 200 characters."""
    arguments = ", ".join(f"{name}={value!r}" for name, value in request.arguments.items())
    text = f"{request.name}({arguments})"
    return text if len(text) <= 200 else text[:197] + "..."
