"""The chain of workflow runs that one run is made of, and what each link's history says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent, WorkflowExecutionStartedEventAttributes
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from ..conversation import ConversationRef
from ..protocol.run import RunFailure, RunInput, RunOutput
from .link import RecordedRun, decode, read_events


@dataclass
class Link:
    """One workflow run of the chain."""

    run_id: str
    history: list[HistoryEvent]
    recorded: RecordedRun

    @property
    def next_run_id(self) -> str | None:
        """The link that follows, when this one was continued as new."""
        closing = self.recorded.closing
        if closing is None or closing.event_type != EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
            return None
        return closing.workflow_execution_continued_as_new_event_attributes.new_execution_run_id

    @property
    def is_open(self) -> bool:
        return self.recorded.closing is None


async def read_link(client: Client, workflow_id: str, run_id: str) -> Link:
    handle = client.get_workflow_handle(workflow_id, run_id=run_id)
    history = [event async for event in handle.fetch_history_events()]
    return Link(run_id, history, await read_events(history, client, workflow_id))


async def last_link(client: Client, workflow_id: str) -> Link:
    description = await client.get_workflow_handle(workflow_id).describe()
    return await read_link(client, workflow_id, description.run_id)


async def first_run_id(client: Client, workflow_id: str) -> str:
    """The run id of the first link that the namespace still keeps. Raises `RPCError` when there is no such run."""
    description = await client.get_workflow_handle(workflow_id).describe()
    started = await _start_of(client, workflow_id, description.run_id)
    carried = (await decode(client, started.input.payloads, RunInput)).carried
    if carried is None:
        return description.run_id
    if await _exists(client, workflow_id, carried.first_run_id):
        return carried.first_run_id
    return await _oldest_before(client, workflow_id, description.run_id)


async def _oldest_before(client: Client, workflow_id: str, run_id: str) -> str:
    """The first link on the way back, when a retention period has passed since the very first one closed."""
    while True:
        previous = (await _start_of(client, workflow_id, run_id)).continued_execution_run_id
        if not previous or not await _exists(client, workflow_id, previous):
            return run_id
        run_id = previous


async def _start_of(client: Client, workflow_id: str, run_id: str) -> WorkflowExecutionStartedEventAttributes:
    handle = client.get_workflow_handle(workflow_id, run_id=run_id)
    async for event in handle.fetch_history_events(page_size=1):
        return event.workflow_execution_started_event_attributes
    raise ValueError(f"the history of {workflow_id!r}, run {run_id!r}, is empty")


async def _exists(client: Client, workflow_id: str, run_id: str) -> bool:
    try:
        await client.get_workflow_handle(workflow_id, run_id=run_id).describe()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return False
    return True


async def read_links(client: Client, workflow_id: str) -> AsyncIterator[Link]:
    """All links that the namespace keeps, from the first to the last."""
    run_id: str | None = await first_run_id(client, workflow_id)
    while run_id:
        link = await read_link(client, workflow_id, run_id)
        yield link
        run_id = link.next_run_id


async def is_running(client: Client, workflow_id: str, run_id: str | None = None) -> bool:
    description = await client.get_workflow_handle(workflow_id, run_id=run_id).describe()
    return description.status == WorkflowExecutionStatus.RUNNING


def cancel_reason(link: Link) -> str | None:
    """What the first canceller gave as the reason; None when there was none."""
    for event in link.history:
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED:
            return event.workflow_execution_cancel_requested_event_attributes.cause or None
    return None


async def closing_output(client: Client, link: Link) -> RunOutput | None:
    """The result that the link ended with, or None when it did not end with one."""
    closing = link.recorded.closing
    if closing is None or closing.event_type != EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
        return None
    result = closing.workflow_execution_completed_event_attributes.result
    return await decode(client, result.payloads, RunOutput)


async def closing_tail(client: Client, link: Link) -> ConversationRef | None:
    """What the link's end adds to the conversation that its history handed over; None when it does not say."""
    closing = link.recorded.closing
    output = await closing_output(client, link)
    if output is not None:
        return output.tail
    if closing is None or closing.event_type != EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
        return None
    failure = closing.workflow_execution_failed_event_attributes.failure
    payloads = failure.application_failure_info.details.payloads
    return (await decode(client, payloads, RunFailure)).tail if payloads else None
