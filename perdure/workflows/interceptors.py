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
    """Observes the start of an agent's run and the stop of its execution, in the thread that
    executes the workflow.
    """

    observed: tuple[type[Any], ...] = (AgentRun,)
    """The observed workflows."""

    def on_begin(self, run: Observed, info: workflow.Info) -> None:
        """Handle a run or a link that is about to take its first step. Must not raise."""

    def on_stop(self, run: Observed, info: workflow.Info) -> None:
        """Handle a run that stopped here: it ended, continued as the next link, or was evicted.
        Must not raise.
        """

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


class RunLogInterceptor(Interceptor):
    """Logs the start and end of an agent's run, and writes its current details on request.

    The thread that executes a run calls `on_reader` with the run's id when a reader queries its
    events, and `on_cancel` when the run is cancelled.
    """

    def __init__(self, on_reader: Callable[[str], None], on_cancel: Callable[[str], None]) -> None:
        self._on_reader, self._on_cancel = on_reader, on_cancel

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor] | None:
        on_reader, on_cancel = self._on_reader, self._on_cancel

        class Inbound(_Inbound):
            async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
                run = workflow.instance()
                if isinstance(run, AgentRun):
                    run.on_cancel = partial(on_cancel, workflow.info().workflow_id)
                return await super().execute_workflow(input)

            async def handle_query(self, input: HandleQueryInput) -> Any:
                if input.query == EVENTS:
                    on_reader(workflow.info().workflow_id)
                return await super().handle_query(input)

        return Inbound


class _Inbound(WorkflowInboundInterceptor):
    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
        run = workflow.instance()
        if not isinstance(run, AgentRun):
            return await super().execute_workflow(input)
        _log_start()
        try:
            output = await super().execute_workflow(input)
        except ContinueAsNewError:
            log(logging.DEBUG, "goes on in a new history")
            raise
        except asyncio.CancelledError:
            if run.has_ended:  # rather than: was evicted from the worker's cache
                log(logging.INFO, "is cancelled")
            raise
        except FailureError as error:
            log(
                logging.WARNING,
                "failed (%s): %s",
                getattr(error, "type", None) or type(error).__name__,
                error.message,
            )
            raise
        except Exception as error:
            log(logging.ERROR, "can't go on: %s: %s", type(error).__name__, error)
            raise
        _log_end(output)
        return output

    async def handle_query(self, input: HandleQueryInput) -> Any:
        answer, run = await super().handle_query(input), workflow.instance()
        if isinstance(answer, WorkflowMetadata) and isinstance(run, AgentRun):
            answer.current_details = details(run.state)
        return answer


def _log_start() -> None:
    info = workflow.info()
    if info.continued_run_id is None:
        log(logging.INFO, "begins, on the task queue %r", info.task_queue)


def _log_end(output: Any) -> None:
    if isinstance(output, RunOutput):
        tokens = output.usage.total_tokens
        how = "ended at a limit" if output.is_incomplete else "is done"
        log(logging.INFO, f"{how}: %d iterations, %d tokens", output.iterations, tokens)
