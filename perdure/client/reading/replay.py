"""Replays a recorded history with the workflow's own code: the same events come out, without worker or server."""

from __future__ import annotations

from collections.abc import Sequence

from temporalio import workflow
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory
from temporalio.converter import DataConverter
from temporalio.worker import Replayer

from ...workflows.agent_run import AgentRun
from ...workflows.observer import RunObserver


class _Catch(RunObserver):
    """Keeps the workflow object that a replay makes."""

    run: AgentRun | None = None

    def on_begin(self, run: AgentRun, info: workflow.Info) -> None:
        self.run = run


async def replay(workflow_id: str, events: Sequence[HistoryEvent], converter: DataConverter) -> AgentRun:
    """The workflow object as it stands at the end of the history, which may be that of an open run.

    Raises `NondeterminismError` when this version of perdure would not have made that history, and `ValueError` when
    no agent was run in it.
    """
    catch = _Catch()
    replayer = Replayer(workflows=[AgentRun], interceptors=[catch], data_converter=converter)
    result = await replayer.replay_workflow(WorkflowHistory(workflow_id, events), raise_on_replay_failure=False)
    if isinstance(result.replay_failure, workflow.NondeterminismError) or catch.run is None:
        raise result.replay_failure or ValueError(f"the history of {workflow_id!r} is not that of an agent's run")
    return catch.run
