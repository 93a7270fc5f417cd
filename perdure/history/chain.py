"""The chain of links that a run is made of: their order, and how each one ended."""

from __future__ import annotations

from collections.abc import AsyncIterator

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from ..conversation import ConversationRef
from ..protocol.run import RunFailure, RunOutput
from .decode import decode
from .link import RecordedLink, read_input, read_link, read_start


async def read_links(client: Client, workflow_id: str) -> AsyncIterator[RecordedLink]:
    """All links that the namespace keeps, from the first to the last. Raises like `read_link`."""
    run_id: str | None = await first_run_id(client, workflow_id)
    while run_id:
        link = await read_link(client, workflow_id, run_id)
        yield link
        run_id = link.next_run_id


async def last_link(client: Client, workflow_id: str) -> RecordedLink:
    """The link that the run is at, or ended with. Raises like `read_link`."""
    description = await client.get_workflow_handle(workflow_id).describe()
    return await read_link(client, workflow_id, description.run_id)


async def first_run_id(client: Client, workflow_id: str) -> str:
    """The run id of the first link that the namespace keeps. Raises `RPCError` when there is no such run."""
    last = (await client.get_workflow_handle(workflow_id).describe()).run_id
    carried = (await read_input(client, workflow_id, last)).carried
    if carried is None:
        return last
    if await _exists(client, workflow_id, carried.first_run_id):
        return carried.first_run_id
    return await _oldest_before(client, workflow_id, last)


async def _oldest_before(client: Client, workflow_id: str, run_id: str) -> str:
    """The oldest link on the way back from `run_id`, where the retention period has removed older ones."""
    while True:
        previous = (await read_start(client, workflow_id, run_id)).continued_execution_run_id
        if not previous or not await _exists(client, workflow_id, previous):
            return run_id
        run_id = previous


async def _exists(client: Client, workflow_id: str, run_id: str) -> bool:
    try:
        await client.get_workflow_handle(workflow_id, run_id=run_id).describe()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return False
    return True


async def is_running(client: Client, workflow_id: str, run_id: str) -> bool:
    """Whether the link is open. Raises `RPCError` when there is no such link."""
    description = await client.get_workflow_handle(workflow_id, run_id=run_id).describe()
    return description.status == WorkflowExecutionStatus.RUNNING


def cancel_reason(link: RecordedLink) -> str | None:
    """The reason that came with the first request to cancel; None when there was none."""
    for event in link.history:
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED:
            return event.workflow_execution_cancel_requested_event_attributes.cause or None
    return None


async def closing_tail(client: Client, link: RecordedLink) -> ConversationRef | None:
    """The end of the conversation, which the link's result or failure holds; None when it does not say.

    Raises `ConfigurationError` when it is stored where `client` can't look.
    """
    closing = link.closing
    if closing is None:
        return None
    if closing.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
        result = closing.workflow_execution_completed_event_attributes.result
        return (await decode(client, result.payloads, RunOutput)).tail
    if closing.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
        failure = closing.workflow_execution_failed_event_attributes.failure
        payloads = failure.application_failure_info.details.payloads
        return (await decode(client, payloads, RunFailure)).tail if payloads else None
    return None
