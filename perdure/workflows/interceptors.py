"""Gives a worker or a replayer access to its workflow objects, and logs the start and end of
runs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

from temporalio import workflow
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.exceptions import FailureError
from temporalio.worker import (
    ExecuteWorkflowInput,
    HandleQueryInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)
from temporalio.workflow import ContinueAsNewError

from ..protocol.names import EVENTS
from ..protocol.outcome import RunOutput
from .agent_run import AgentRun
from .logging import log
from .session.session import Session
from .ui import details

Observed = TypeVar("Observed", bound=AgentRun | Session)


class RunObserver(Interceptor, Generic[Observed]):
    """Observes runs, in the thread that executes their workflow. Its methods must not raise."""

    observed: tuple[type[Any], ...] = (AgentRun,)
    """The observed workflows."""

    def on_begin(self, run: Observed, info: workflow.Info) -> None:
        """Handle a run or a link that is about to take its first step."""

    def on_end(self, run: Observed, info: workflow.Info, end: Any) -> None:
        """Handle a link that stopped here with this result or error: it ended, continued as the
        next link, or was evicted (an error while `run.has_ended` is false).
        """

    def on_query(self, run: Observed, info: workflow.Info, query: str, answer: Any) -> None:
        """Handle the answer to a query, which may be changed in place."""

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor] | None:
        observer = self

        class Inbound(WorkflowInboundInterceptor):
            async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
                run: Any = workflow.instance()
                if not isinstance(run, observer.observed):
                    return await super().execute_workflow(input)
                info = workflow.info()
                observer.on_begin(run, info)
                end: Any = None
                try:
                    end = await super().execute_workflow(input)
                    return end
                except BaseException as error:
                    end = error
                    raise
                finally:
                    observer.on_end(run, info, end)

            async def handle_query(self, input: HandleQueryInput) -> Any:
                answer, run = await super().handle_query(input), workflow.instance()
                if isinstance(run, observer.observed):
                    observer.on_query(run, workflow.info(), input.query, answer)
                return answer

        return Inbound


class RunLog(RunObserver[AgentRun]):
    """Logs the start and end of an agent's run, and writes its current details on request.

    Calls `on_reader` with the run's id when a reader queries its events, and `on_cancel` when the
    run is cancelled.
    """

    def __init__(self, on_reader: Callable[[str], None], on_cancel: Callable[[str], None]) -> None:
        self._on_reader, self._on_cancel = on_reader, on_cancel

    def on_begin(self, run: AgentRun, info: workflow.Info) -> None:
        run.on_cancel = partial(self._on_cancel, info.workflow_id)
        if info.continued_run_id is None:
            log(logging.INFO, "begins, on the task queue %r", info.task_queue)

    def on_end(self, run: AgentRun, info: workflow.Info, end: Any) -> None:
        match end:
            case RunOutput():
                how = "ended at a limit" if end.is_incomplete else "is done"
                tokens = end.usage.total_tokens
                log(logging.INFO, f"{how}: %d iterations, %d tokens", end.iterations, tokens)
            case ContinueAsNewError():
                log(logging.DEBUG, "goes on in a new history")
            case asyncio.CancelledError() if run.has_ended:
                log(logging.INFO, "is cancelled")
            case FailureError():
                kind = getattr(end, "type", None) or type(end).__name__
                log(logging.WARNING, "failed (%s): %s", kind, end.message)
            case Exception():
                log(logging.ERROR, "can't go on: %s: %s", type(end).__name__, end)

    def on_query(self, run: AgentRun, info: workflow.Info, query: str, answer: Any) -> None:
        if query == EVENTS:
            self._on_reader(info.workflow_id)
        if isinstance(answer, WorkflowMetadata):
            answer.current_details = details(run.state)
