"""Reads a recorded history by replaying it: the same code, the same events, no worker and no server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from temporalio import workflow
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory
from temporalio.converter import DataConverter
from temporalio.worker import (
    ExecuteWorkflowInput,
    Interceptor,
    Replayer,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

from ...workflows.agent_run import AgentRun


class _Observer(Interceptor):
    """Takes hold of the workflow object that a replay makes."""

    def __init__(self) -> None:
        self.seen: AgentRun | None = None

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor] | None:
        observer = self

        class Inbound(WorkflowInboundInterceptor):
            async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
                observer.seen = workflow.instance()
                return await super().execute_workflow(input)

        return Inbound


async def replay(workflow_id: str, events: Sequence[HistoryEvent], converter: DataConverter) -> AgentRun:
    """The workflow object as it stands at the end of the history, which may be that of an open run.

    Raises `NondeterminismError` when this version of perdure would not have made that history.
    """
    observer = _Observer()
    replayer = Replayer(workflows=[AgentRun], interceptors=[observer], data_converter=converter)
    result = await replayer.replay_workflow(WorkflowHistory(workflow_id, events), raise_on_replay_failure=False)
    if isinstance(result.replay_failure, workflow.NondeterminismError) or observer.seen is None:
        raise result.replay_failure or ValueError(f"the history of {workflow_id!r} holds no run of an agent")
    return observer.seen
