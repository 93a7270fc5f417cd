"""Does what a server does with a closed history when the retention period is over, and what an
operator may do with it: a reset.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import (
    DeleteWorkflowExecutionRequest,
    ResetWorkflowExecutionRequest,
)
from temporalio.client import (
    Client,
    FetchWorkflowHistoryEventsInput,
    Interceptor,
    OutboundInterceptor,
)
from temporalio.service import RPCError, RPCStatusCode

from .waiting import wait_for


async def reset(client: Client, workflow_id: str, run_id: str, task: int) -> None:
    """Let the workflow go on from the end of its task with that event, as an operator may."""
    await client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=workflow_id, run_id=run_id),
            reason="a test",
            request_id=str(uuid.uuid4()),
            workflow_task_finish_event_id=task,
        ),
        retry=True,
    )


async def remove_link(client: Client, workflow_id: str, run_id: str | None = None) -> None:
    """Remove that link, or the latest one; a server takes half a minute."""
    execution = WorkflowExecution(workflow_id=workflow_id, run_id=run_id or "")
    request = DeleteWorkflowExecutionRequest(
        namespace=client.namespace, workflow_execution=execution
    )
    await client.workflow_service.delete_workflow_execution(request, retry=True)

    async def is_gone() -> bool:
        try:
            await client.get_workflow_handle(workflow_id, run_id=run_id).describe()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return True
        return False

    await wait_for(is_gone, timeout=60)


class Retention(Interceptor):
    """Removes a link while it is read: before its first event, or right after that."""

    def __init__(
        self, client: Client, workflow_id: str, run_id: str, *, after_first: bool = True
    ) -> None:
        self.run_id = run_id
        self.after_first = after_first
        self.has_removed = False
        self._client, self._workflow_id = client, workflow_id

    @property
    def reader(self) -> Client:
        """A client whose reading is what the link is removed by."""
        return Client(**{**self._client.config(active_config=True), "interceptors": [self]})

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        return _Removing(next, self)

    async def remove(self) -> None:
        await remove_link(self._client, self._workflow_id, self.run_id)
        self.has_removed = True


class _Removing(OutboundInterceptor):
    def __init__(self, next: OutboundInterceptor, retention: Retention) -> None:
        super().__init__(next)
        self._retention = retention

    def fetch_workflow_history_events(self, input: FetchWorkflowHistoryEventsInput) -> Any:
        events = super().fetch_workflow_history_events(input)
        is_due = input.run_id == self._retention.run_id and not self._retention.has_removed
        return self._events_and_removal(events) if is_due else events

    async def _events_and_removal(
        self, events: AsyncIterator[HistoryEvent]
    ) -> AsyncIterator[HistoryEvent]:
        if not self._retention.after_first:
            await self._retention.remove()
        async for event in events:
            if not self._retention.has_removed:
                await self._retention.remove()
            yield event
