"""The descriptions of a run that the Temporal UI shows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from ..agents import Agent
from ..messages import Message
from ..text import code, count_of, excerpt, inert, one_line
from .run import RunInput

if TYPE_CHECKING:  # Workflows don't import clients.
    from temporalio.client import WorkflowExecution

STARTED, HANDED_BY = "perdureStarted", "perdureHandedBy"
"""Memo keys of later links: when the first link began, and the agent that handed the run over."""


class ShownRun(NamedTuple):
    """The columns of a run or a session in lists."""

    agent: str | None
    """The agent that acts now; None if this process's converter can't decode the memo."""
    started: datetime
    """When the run began; when its last link began, if that can't be decoded."""
    handed_by: str = ""
    """The agent that handed over to this one."""


async def shown_of(run: WorkflowExecution) -> ShownRun:
    """Return the list columns of the run; never raises."""
    try:
        memo = await run.memo()
        started = datetime.fromisoformat(memo[STARTED]) if STARTED in memo else run.start_time
        return ShownRun(str(memo.get("agent", "")), started, str(memo.get(HANDED_BY, "")))
    except Exception:
        # A converter may raise any exception, and one unreadable run must not hide the others.
        return ShownRun(None, run.start_time)


def shown_name(agent: Agent) -> str:
    """Return the agent's name, or a placeholder."""
    return agent.name or "agent"


def summary_of(input: RunInput) -> str:
    """Return the run in one line: its agent and its question."""
    name, turn = shown_name(input.agent), input.options.turn
    title = name if turn is None else f"{name}, turn {turn}"
    return f"{title}: {_first_words(input.messages)}"


def details_of(input: RunInput) -> str:
    """Return the run's agent, model, tools, limits and calling run, as Markdown."""
    model = input.agent.model
    lines = [excerpt(input.agent.description or "", 2000), ""]
    if input.lineage is not None:
        lines.append(f"- called by the run {code(input.lineage.parent)}, tool call {code(input.lineage.call_id)}")
    if model:
        lines.append(f"- model: {code(model.id)} ({model.provider_key}, {model.api_type})")
    if tools := [tool.name for tool in input.agent.tools or []]:
        lines.append(f"- tools: {', '.join(map(code, tools[:100]))}")
    if input.options.turn is not None:
        lines.append(f"- turn {input.options.turn} of a conversation")
    lines.append(f"- at most {count_of(input.options.max_iterations, 'iteration')}")
    return "\n".join(lines).strip()


def _first_words(messages: Sequence[Message]) -> str:
    text = next((message.text for message in reversed(messages) if message.role == "user"), "")
    return inert(one_line(text, 120))
