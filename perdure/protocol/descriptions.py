"""The descriptions of a run that the Temporal UI shows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from ..agents import Agent
from ..messages import Message
from ..text import count_of, excerpt, one_line
from .markdown import code, inert
from .run import RunInput
from .search_attributes import TITLE


def shown_name(agent: Agent) -> str:
    """Return the agent's name, or a placeholder."""
    return agent.name or "agent"


def moment(time: float) -> str:
    """Return a time, given in seconds since the epoch, in readable form."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def summary_of(input: RunInput) -> str:
    """Return the run in one line: its agent and its question."""
    name, turn = shown_name(input.agent), input.options.turn
    title = name if turn is None else f"{name}, turn {turn}"
    return f"{title}: {_first_words(input.messages)}"


def memo_of(input: RunInput) -> dict[str, str]:
    """Return the memo by which lists show the run: its agent and its title."""
    return {"agent": shown_name(input.agent), TITLE: _question(input.messages)}


def details_of(input: RunInput) -> str:
    """Return the run's agent, model, tools, limits and calling run, as Markdown."""
    model = input.agent.model
    lines = [excerpt(input.agent.description or "", 2000), ""]
    if input.lineage is not None:
        lines.append(
            f"- called by the run {code(input.lineage.parent)}, tool call "
            f"{code(input.lineage.call_id)}"
        )
    if model:
        lines.append(f"- model: {code(model.id)} ({model.provider_key}, {model.api_type})")
    if tools := [tool.name for tool in input.agent.tools or []]:
        lines.append(f"- tools: {', '.join(map(code, tools[:100]))}")
    if input.options.turn is not None:
        lines.append(f"- turn {input.options.turn} of a conversation")
    lines.append(f"- at most {count_of(input.options.max_iterations, 'iteration')}")
    return "\n".join(lines).strip()


def _first_words(messages: Sequence[Message]) -> str:
    return inert(_question(messages))


def _question(messages: Sequence[Message]) -> str:
    text = next((message.text for message in reversed(messages) if message.role == "user"), "")
    return one_line(text, 120)
