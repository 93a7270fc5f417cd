"""Has the server remove what it keeps of a run or a session, with the runs that those have called."""

from __future__ import annotations

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from ..errors import RunNotFound
from ..history.chain import Chain
from ..protocol.search_attributes import quote
from .sessions.reading import Reader

Found = dict[tuple[str, str], None]
"""Workflow id and run id, in order."""


async def delete_run(client: Client, id: str) -> set[str]:
    """Have the server remove the run and those that it has called; the run ids of all of them.

    What is under way is terminated. The server takes its time for the rest. Raises `RPCError`.
    """
    return await _delete(client, id, {(id, link.run_id): None async for link in Chain(client, id).links()})


async def delete_session(client: Client, id: str) -> set[str]:
    """Do the same with a session, its runs and the runs that those have called. Raises `RPCError`."""
    found: Found = {}
    try:
        async for link in Reader(client, id).links():
            found[id, link.run_id] = None
            found.update({(turn.run_id, turn.first_run_id): None for turn in link.turns})
    except RunNotFound:
        return set()
    return await _delete(client, id, found)


async def _delete(client: Client, id: str, found: Found) -> set[str]:
    """Delete the workflow of that id first, so that it begins no others."""
    async for each in client.list_workflows(f"RootWorkflowId = {quote(id)}"):
        if each.root_id == id:  # What is deleted is gone: this does not rely on the query alone.
            found[each.id, each.run_id] = None
    for workflow_id, run_id in sorted(found, key=lambda key: key[0] != id):
        execution = WorkflowExecution(workflow_id=workflow_id, run_id=run_id)
        request = DeleteWorkflowExecutionRequest(namespace=client.namespace, workflow_execution=execution)
        try:
            await client.workflow_service.delete_workflow_execution(request)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
    return {run_id for _, run_id in found}
