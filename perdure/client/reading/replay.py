"""Replays a recorded history with the workflow's own code: the same events come out, without worker or server."""

from __future__ import annotations

from collections.abc import Sequence

from temporalio.api.history.v1 import HistoryEvent
from temporalio.converter import DataConverter

from ...trace.replayed import replayed
from ...workflows.agent_run import AgentRun


async def replay(workflow_id: str, events: Sequence[HistoryEvent], converter: DataConverter) -> AgentRun:
    """The workflow object as it stands at the end of the history, which may be that of an open run.

    Raises `NondeterminismError` when this version of perdure would not have made that history, and `ValueError` when
    no agent was run in it.
    """
    return (await replayed(workflow_id, events, converter)).run
