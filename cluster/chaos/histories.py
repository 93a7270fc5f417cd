"""What Temporal recorded, read by its plain API: executions and their events, nothing decoded by
perdure.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import (
    GetWorkflowExecutionHistoryRequest,
    ListWorkflowExecutionsRequest,
)
from temporalio.client import Client

CLOSED = "EVENT_TYPE_WORKFLOW_EXECUTION_"
CONTINUED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW


async def executions(client: Client) -> AsyncIterator[WorkflowExecution]:
    """Every execution of the namespace whose id is one of this program's."""
    token = b""
    while True:
        request = ListWorkflowExecutionsRequest(
            namespace=client.namespace, page_size=500, next_page_token=token
        )
        page = await client.workflow_service.list_workflow_executions(request, retry=True)
        for info in page.executions:
            yield info.execution
        if not (token := page.next_page_token):
            return


async def events(client: Client, execution: WorkflowExecution) -> list[HistoryEvent]:
    """All events of one execution."""
    found: list[HistoryEvent] = []
    token = b""
    while True:
        request = GetWorkflowExecutionHistoryRequest(
            namespace=client.namespace, execution=execution, next_page_token=token
        )
        page = await client.workflow_service.get_workflow_execution_history(request, retry=True)
        found.extend(page.history.events)
        if not (token := page.next_page_token):
            return found


def end_of(found: list[HistoryEvent]) -> str:
    """How an execution ended, such as `COMPLETED`; empty while it is open."""
    name = EventType.Name(found[-1].event_type)
    return name.removeprefix(CLOSED) if name.startswith(CLOSED) else ""


def result_of(found: list[HistoryEvent]) -> dict[str, Any]:
    """The result that a completed execution has recorded, which is plain JSON; empty for none."""
    for payload in found[-1].workflow_execution_completed_event_attributes.result.payloads:
        if payload.data and isinstance(read := json.loads(payload.data), dict):
            return read
    return {}
