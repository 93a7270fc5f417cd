"""The chain of a run's links: their order, and the end of each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionRequest
from temporalio.client import (
    Client,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowHandle,
    WorkflowHistoryEventFilterType,
)
from temporalio.service import RPCError, RPCStatusCode

from ..conversation import ConversationRef
from ..errors import RunNotFound
from ..payloads.encryption.codec import opened_text
from ..protocol.names import WORKFLOW
from ..protocol.outcome import RunFailure, RunOutput
from .events import decode
from .link import RecordedLink, not_a_run, read_link, read_start

Done = TypeVar("Done")


class Chain:
    """Links of one run, unaffected by a later run with the same id.

    `origin` is the run id of the first link; without it, the chain is that of the latest run at the
    first request. Every method raises `RPCError` if the namespace does not keep the run. With
    `is_of_run`, the first request raises `RunNotFound` if the id is that of something else, such as
    a session.
    """

    def __init__(
        self,
        client: Client,
        workflow_id: str,
        origin: str | None = None,
        *,
        is_of_run: bool = False,
    ) -> None:
        self.client = client
        self.workflow_id = workflow_id
        self._origin = origin
        self._is_of_run = is_of_run
        self._known = origin
        """The latest link seen."""

    def handle(self, run_id: str) -> WorkflowHandle[Any, Any]:
        """Temporal's handle for one link."""
        return self.client.get_workflow_handle(self.workflow_id, run_id=run_id)

    async def pending_activities(self, run_id: str) -> Sequence[PendingActivityInfo]:
        """Return the open activities of one link.

        Readers ask ten times a second: the SDK's own description costs three times as much as the
        server's answer.
        """
        link = WorkflowExecution(workflow_id=self.workflow_id, run_id=run_id)
        asked = DescribeWorkflowExecutionRequest(namespace=self.client.namespace, execution=link)
        answer = await self.client.workflow_service.describe_workflow_execution(asked, retry=True)
        return answer.pending_activities

    async def describe(self) -> WorkflowExecutionDescription:
        """Return the run's current or last link. Raises `RunNotFound` as described for the
        class.
        """
        latest = await self.client.get_workflow_handle(self.workflow_id).describe()
        if self._is_of_run and latest.workflow_type != WORKFLOW:
            raise RunNotFound(not_a_run(self.workflow_id, latest.workflow_type))
        origin = latest.raw_description.workflow_execution_info.first_run_id
        if self._origin not in (None, origin):
            return await self._describe_superseded()
        self._origin, self._known = origin, latest.run_id
        return latest

    async def known_run_id(self) -> str:
        """Return the run id of a link from which a reader can follow the run to its end."""
        return self._known or (await self.describe()).run_id

    async def at_current(self, do: Callable[[WorkflowHandle[Any, Any]], Awaitable[Done]]) -> Done:
        """Call `do` with the run's current link, which may change meanwhile. Raises the errors of
        `do`.
        """

        async def current() -> str:
            return (await self.describe()).run_id

        return await _with_link(
            await self.known_run_id(), current, lambda run_id: do(self.handle(run_id))
        )

    async def origin(self) -> str:
        """Return the run id of the first link, which the namespace may have removed."""
        if self._origin is None:
            await self.describe()
        assert self._origin is not None
        return self._origin

    async def last(self) -> RecordedLink:
        """Return the run's current or last link. Raises like `read_link`."""
        return await read_link(self.client, self.workflow_id, (await self.describe()).run_id)

    async def links(self) -> AsyncIterator[RecordedLink]:
        """Yield all links that the namespace keeps, from the first to the last. Raises like
        `read_link`.
        """
        read = partial(read_link, self.client, self.workflow_id)
        link = await self.at_first_kept(read)
        yield link
        while link.next_run_id:
            link = await read(link.next_run_id)
            yield link

    async def at_first_kept(self, read: Callable[[str], Awaitable[Done]]) -> Done:
        """Call `read` with the run id of the first link that the namespace keeps; with the next one
        if that is removed.

        Raises the errors of `read`.
        """
        return await _with_link(await self._first_kept(), self._first_kept, read)

    async def _first_kept(self) -> str:
        return await self.oldest_before((await self.describe()).run_id)

    async def is_running(self, run_id: str) -> bool:
        """Return whether the link is open."""
        return (await self.handle(run_id).describe()).status == WorkflowExecutionStatus.RUNNING

    async def closing_event(self, run_id: str) -> HistoryEvent:
        """Return the event that closed this link. Raises ValueError while it is open."""
        end = WorkflowHistoryEventFilterType.CLOSE_EVENT
        async for event in self.handle(run_id).fetch_history_events(event_filter_type=end):
            return event
        raise ValueError(f"the history of {self.workflow_id!r}, run {run_id!r}, has no end")

    async def _describe_superseded(self) -> WorkflowExecutionDescription:
        """Follow the links from the latest one seen: the id now belongs to another run."""
        assert self._known is not None
        while True:
            link = await self.handle(self._known).describe()
            if link.status != WorkflowExecutionStatus.CONTINUED_AS_NEW:
                return link
            closing = await self.closing_event(self._known)
            self._known = (
                closing.workflow_execution_continued_as_new_event_attributes.new_execution_run_id
            )

    async def oldest_before(self, run_id: str) -> str:
        """Return the oldest link before `run_id` that the retention period has left.

        Raises `RPCError` if `run_id` itself is removed.
        """
        start = await read_start(self.client, self.workflow_id, run_id)
        while previous := start.continued_execution_run_id:
            try:
                start = await read_start(self.client, self.workflow_id, previous)
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:
                    raise
                break
            run_id = previous
        return run_id


async def _with_link(
    run_id: str, look: Callable[[], Awaitable[str]], do: Callable[[str], Awaitable[Done]]
) -> Done:
    """Call `do` with that link, or with its current successor if it is not found. Raises as
    `do`.
    """
    while True:
        try:
            return await do(run_id)
        except RPCError as error:
            # The link has closed, or the server has removed it; the run may have moved on.
            if error.status is not RPCStatusCode.NOT_FOUND or (now := await look()) == run_id:
                raise
        run_id = now


def read_links(client: Client, workflow_id: str) -> AsyncIterator[RecordedLink]:
    """Return the links of the latest run of that id, as `Chain.links` yields them."""
    return Chain(client, workflow_id).links()


async def cancel_reason(client: Client, link: RecordedLink) -> str | None:
    """Return the reason of the first cancel request; None without one.

    Raises `ConfigurationError` if it is encrypted and the key is missing here.
    """
    for event in link.history:
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED:
            cause = event.workflow_execution_cancel_requested_event_attributes.cause
            return await opened_text(client.data_converter, cause) or None
    return None


async def closing_tail(client: Client, link: RecordedLink) -> ConversationRef | None:
    """Return the end of the conversation from the link's result or failure; None if neither has it.

    Raises `ConfigurationError` if `client` can't reach its storage.
    """
    ending = await ending_of(client, link.closing_event) if link.closing_event else None
    if ending is None or ending.tail or not ending.handed_over:
        return ending.tail if ending else None
    reference, known = (
        ending.handed_over,
        link.references[-1].version if link.references else link.version,
    )
    return reference.model_copy(
        update={"base": known, "operations": reference.operations[known - reference.base :]}
    )


async def ending_of(client: Client, closing: HistoryEvent) -> RunOutput | RunFailure | None:
    """Return the run's own result or failure; None if it was ended from outside. Raises like
    `closing_tail`.
    """
    if closing.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
        result = closing.workflow_execution_completed_event_attributes.result
        return await decode(client, result.payloads, RunOutput)
    if closing.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
        failure = closing.workflow_execution_failed_event_attributes.failure
        payloads = failure.application_failure_info.details.payloads
        return await decode(client, payloads, RunFailure) if payloads else None
    return None
