"""Probes a server's settings: whether it records runs, and refuses many readers at once."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from datetime import timedelta

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.query.v1 import WorkflowQuery
from temporalio.api.workflowservice.v1 import (
    CountWorkflowExecutionsRequest,
    QueryWorkflowRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from ...client.server_settings import setting
from ...worker.account import plain_client
from .findings import Finding, finding

BURST = 15
"""Counts of runs at once: more than a server with default settings takes in a second."""
READERS, READ_SECONDS = 4, 0.5
"""Queries at once, and how long they wait: the server refuses at once."""
PATIENCE_SECONDS = 20.0
"""For all of it."""


async def probed_settings(client: Client) -> list[Finding]:
    """Return the unfit settings. Leaves a closed run behind."""
    client = plain_client(client)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            found = await asyncio.gather(_readers(client), _visibility(client))
    except RPCError as error:
        is_full = error.status is RPCStatusCode.UNAVAILABLE
        return [finding("no-writes" if is_full else "settings-unknown", error=str(error))]
    except TimeoutError:
        error_text = f"no answer within {PATIENCE_SECONDS:g} s"
        return [finding("settings-unknown", error=error_text)]
    return [each for several in found for each in several]


async def _readers(client: Client) -> Sequence[Finding]:
    """Query a run that no worker takes up several times at once."""
    id = f"perdure-doctor-{uuid.uuid4()}"
    limit = timedelta(seconds=PATIENCE_SECONDS)
    run = await client.start_workflow(
        "perdure.Doctor", id=id, task_queue=id, execution_timeout=limit
    )
    request = QueryWorkflowRequest(
        namespace=client.namespace,
        execution=WorkflowExecution(workflow_id=id),
        query=WorkflowQuery(query_type="__stack_trace"),
    )
    wait, service = timedelta(seconds=READ_SECONDS), client.workflow_service
    asked = (service.query_workflow(request, retry=False, timeout=wait) for _ in range(READERS))
    answers = await asyncio.gather(*asked, return_exceptions=True)
    await run.terminate("perdure doctor has measured")
    return _refused("query-buffer", "history.MaxBufferedQueryCount", answers)


async def _visibility(client: Client) -> Sequence[Finding]:
    request = CountWorkflowExecutionsRequest(
        namespace=client.namespace, query="ExecutionStatus = 'Running'"
    )
    service = client.workflow_service
    asked = (service.count_workflow_executions(request, retry=False) for _ in range(BURST))
    answers = await asyncio.gather(*asked, return_exceptions=True)
    return _refused("visibility-quota", "frontend.namespaceRPS.visibility", answers)


def _refused(id: str, key: str, answers: Sequence[object]) -> Sequence[Finding]:
    failed = [each for each in answers if isinstance(each, RPCError)]
    refused = sum(each.status is RPCStatusCode.RESOURCE_EXHAUSTED for each in failed)
    if not refused:
        return ()
    about = {"setting": key, "value": setting(key).value, "without": setting(key).without}
    return [finding(id, refused=refused, asked=len(answers), **about)]
