"""The sessions that a server keeps: which there are, since when, and how one is removed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Container
from datetime import UTC, datetime
from typing import NamedTuple

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import (
    DeleteWorkflowExecutionRequest,
    GetWorkflowExecutionHistoryReverseRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from ...client.sessions.reading import Reader
from ...errors import RunNotFound
from ...protocol.names import SESSION_WORKFLOW
from ...protocol.search_attributes import quoted


class Stored(NamedTuple):
    """A session that the server keeps."""

    id: str
    run_id: str
    """Of its latest link."""
    app_name: str
    user_id: str
    created_at: datetime
    updated_at: datetime


async def stored_sessions(
    client: Client, *, without: Container[str], user: str | None = None, before: datetime | None = None
) -> AsyncIterator[str]:
    """The ids of the sessions, the newest first, `without` those of such run ids.

    Those of one user, or begun `before` a time, where that is given. Raises `RPCError`.
    """
    query, seen = f"WorkflowType = '{SESSION_WORKFLOW}'", set[str]()
    if before is not None:
        query += f" AND StartTime < '{before.isoformat()}'"
    async for execution in client.list_workflows(query):
        if execution.id in seen or execution.run_id in without:
            continue
        seen.add(execution.id)
        if user is None or (await execution.memo()).get("user") == user:
            yield execution.id


async def stored_session(client: Client, id: str) -> Stored | None:
    """What the server tells of a session of that id; None when there is none. Raises `RPCError`."""
    try:
        described = await Reader(client, id).describe()
    except RunNotFound:
        return None
    memo = await described.memo()
    link = WorkflowExecution(workflow_id=id, run_id=described.run_id)
    latest = await client.workflow_service.get_workflow_execution_history_reverse(
        GetWorkflowExecutionHistoryReverseRequest(namespace=client.namespace, execution=link, maximum_page_size=1)
    )
    updated = latest.history.events[0].event_time.ToDatetime(UTC) if latest.history.events else described.start_time
    return Stored(
        id, described.run_id, str(memo.get("agent", "")), str(memo.get("user", "")), described.start_time, updated
    )


async def delete_session(client: Client, id: str) -> set[str]:
    """Have the server remove the session, its runs and the runs that those have called; the run ids of all of them.

    What is under way is terminated. The server takes its time for the rest. Raises `RPCError`.
    """
    executions = await _executions(client, id)
    for execution in executions:
        await _delete(client, execution)
    return {execution.run_id for execution in executions}


async def _executions(client: Client, id: str) -> list[WorkflowExecution]:
    """The session first, so that it begins no further runs."""
    found: dict[tuple[str, str], None] = {}
    try:
        async for link in Reader(client, id).links():
            found[id, link.run_id] = None
            found.update({(turn.run_id, turn.first_run_id): None for turn in link.turns})
    except RunNotFound:
        return []
    async for each in client.list_workflows(f"RootWorkflowId = {quoted(id)}"):
        if each.root_id == id:  # What is deleted is gone: this does not rely on the query alone.
            found[each.id, each.run_id] = None
    of_session = sorted(found, key=lambda key: key[0] != id)
    return [WorkflowExecution(workflow_id=each, run_id=run_id) for each, run_id in of_session]


async def _delete(client: Client, execution: WorkflowExecution) -> None:
    request = DeleteWorkflowExecutionRequest(namespace=client.namespace, workflow_execution=execution)
    try:
        await client.workflow_service.delete_workflow_execution(request)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
