"""Ends a child workflow that no worker has executed: Temporal itself lets it wait for ever."""

from __future__ import annotations

from temporalio import activity
from temporalio.api.enums.v1 import EventType
from temporalio.api.failure.v1 import Failure
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from ..errors import ConfigurationError
from ..payloads.failures import text_of
from ..protocol.activities import END_UNSTARTED, Unstarted, UnstartedInput
from ..redaction import redact
from ..valid_text import bounded_text

FIRST_EVENTS = 50
"""Workflow tasks that fail again and again are not recorded again: the first success would be among so many."""


@activity.defn(name=END_UNSTARTED)
async def end_unstarted(input: UnstartedInput) -> Unstarted:
    """Terminate the workflow if none of its workflow tasks has been completed.

    Nothing of it has been executed then, unless a worker begins with it at this very moment. Raises `RPCError`.
    """
    handle = activity.client().get_workflow_handle(input.workflow_id, run_id=input.run_id)
    why = ""
    async for event in handle.fetch_history_events(page_size=FIRST_EVENTS):
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
            return Unstarted(ended=False)
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
            why = await _text_of(event.workflow_task_failed_event_attributes.failure)
    try:
        await handle.terminate("no worker has executed it in the time that the calling run gives it")
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
    status = (await handle.describe()).status
    return Unstarted(ended=status == WorkflowExecutionStatus.TERMINATED, why=redact(bounded_text(why, 1000)))


async def _text_of(failure: Failure) -> str:
    """What the failure says, decrypted if need be."""
    try:
        return await text_of(activity.client().data_converter, failure)
    except ConfigurationError as problem:
        return str(problem)
