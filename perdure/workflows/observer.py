"""Lets a worker or a replayer take hold of the workflow objects that it makes."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from temporalio import workflow
from temporalio.worker import (
    ExecuteWorkflowInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

from .agent_run import AgentRun
from .session import Session

Observed = TypeVar("Observed", bound=AgentRun | Session)


class RunObserver(Interceptor, Generic[Observed]):
    """Is told, in the thread that executes the workflow, when an agent's run begins and when its execution stops."""

    observed: tuple[type[Any], ...] = (AgentRun,)
    """The workflows of which it is told."""

    def on_begin(self, run: Observed, info: workflow.Info) -> None:
        """The run, or one link of it, is about to do its first step. Must not raise."""

    def on_stop(self, run: Observed, info: workflow.Info) -> None:
        """It does nothing more here: it has ended, goes on as the next link, or was evicted. Must not raise."""

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor] | None:
        observer = self

        class Inbound(WorkflowInboundInterceptor):
            async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
                run: Any = workflow.instance()
                info = workflow.info()
                if not isinstance(run, observer.observed):
                    return await super().execute_workflow(input)
                observer.on_begin(run, info)
                try:
                    return await super().execute_workflow(input)
                finally:
                    observer.on_stop(run, info)

        return Inbound
