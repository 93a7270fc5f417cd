"""Does what a server does with a closed history when the retention period is over."""

from __future__ import annotations

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from .waiting import wait_for


async def remove_link(client: Client, workflow_id: str, run_id: str | None = None) -> None:
    """Remove that link, or the latest one; a server takes half a minute."""
    execution = WorkflowExecution(workflow_id=workflow_id, run_id=run_id or "")
    request = DeleteWorkflowExecutionRequest(namespace=client.namespace, workflow_execution=execution)
    await client.workflow_service.delete_workflow_execution(request)

    async def is_gone() -> bool:
        try:
            await client.get_workflow_handle(workflow_id, run_id=run_id).describe()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return True
        return False

    await wait_for(is_gone, timeout=60)
