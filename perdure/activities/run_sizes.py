"""How much memory the runs take that a worker knows, and how it is shared out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ..agent import Agent, Tool

HEADS_SHARE = 8
"""One eighth of the memory is for what runs are (agent, inputs, options), the rest for their conversations."""


class Run(Protocol):
    """A run without its conversation."""

    recorded_agent: Agent
    agents: dict[str, Agent]
    offered: Sequence[Tool]
    mock_responses: list[str] | None
    inputs: dict[str, Any]


def bytes_of_run(run: Run) -> int:
    """About how many bytes the run takes, resolved agent included; never raises."""
    nodes = [run.recorded_agent, *run.agents.values(), *run.offered]
    declared = sum(len(node.model_dump_json(exclude_none=True)) for node in nodes)
    return 8 * declared + 4 * sum(map(len, run.mock_responses or ())) + 4 * len(repr(run.inputs))
