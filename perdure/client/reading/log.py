"""A reader's copy of a run's events, link by link: by queries, or by replays without a worker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHandle, WorkflowQueryFailedError
from temporalio.converter import DataConverter
from temporalio.service import RPCError, RPCStatusCode

from ...events import TERMINAL_EVENTS, EventPage, EventReader, RunEvent
from ...history.chain import Chain
from ...history.events import CLOSING_EVENTS
from ...history.link import RecordedLink, read_link
from ...history.transcript import Transcript
from ...protocol.names import EVENTS
from ...trace.replay import NOT_REPLAYED, replay_link
from ...workflows.agent_run import AgentRun

QUERY_SECONDS = 2.0
"""After these seconds without an answer, the reader replays the history instead."""
LOOK_SECONDS = 0.2
"""After this time, the reader checks that the query's link is still open: a closed one may never
answer."""
_NO_ANSWER = (
    RPCStatusCode.DEADLINE_EXCEEDED,
    RPCStatusCode.FAILED_PRECONDITION,
    RPCStatusCode.CANCELLED,
)
_COMPLETED = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
_UPDATES = (
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED,
)

Answer = TypeVar("Answer")


async def ask(
    handle: WorkflowHandle[Any, Any], query: str, *arguments: Any, answer: type[Answer]
) -> Answer | None:
    """Return the workflow's answer, or None when no worker answers in time. Raises `RPCError` when
    there is no such run.
    """
    limit = timedelta(seconds=QUERY_SECONDS)
    try:
        # `rpc_timeout` limits one attempt; the SDK makes several.
        async with asyncio.timeout(1.25 * QUERY_SECONDS):
            given: Answer = await handle.query(
                query, args=arguments, result_type=answer, rpc_timeout=limit
            )
            return given
    except (TimeoutError, WorkflowQueryFailedError):
        return None
    except RPCError as error:
        if error.status not in _NO_ANSWER:
            raise
        return None


async def replay(
    workflow_id: str, events: Sequence[HistoryEvent], converter: DataConverter
) -> AgentRun:
    """Return the workflow object after the history. Raises like `replay_link`.

    Of an open run, it is the one after the last completed workflow task: together with what comes
    next, such as a cancellation, the run may take up later events in another way.
    """
    return (await replay_link(workflow_id, _taken_up(events), converter)).run


def _taken_up(events: Sequence[HistoryEvent]) -> Sequence[HistoryEvent]:
    """Return an open link's events to the last of the last completed workflow task's commands and
    updates; all events where none is completed, or the link is closed.
    """
    tasks = [n for n, event in enumerate(events) if event.event_type == _COMPLETED]
    if not tasks or events[-1].event_type in CLOSING_EVENTS:
        return events
    end = tasks[-1] + 1
    while end < len(events) and _is_of_task(events[end]):
        end += 1
    return events[:end]


def _has_begun(events: Sequence[HistoryEvent]) -> bool:
    return any(event.event_type == _COMPLETED for event in events)


def _is_of_task(event: HistoryEvent) -> bool:
    """Return whether the event is a command or an update of a completed workflow task."""
    attributes = getattr(event, event.WhichOneof("attributes") or "", None)
    return hasattr(attributes, "workflow_task_completed_event_id") or event.event_type in _UPDATES


MAX_REPLAYED = 4000
"""A longer history of an open link is not replayed where a query is possible: that takes 2 s."""


class Growth(NamedTuple):
    """The history of an open link, as far as its reader has it."""

    run_id: str
    events: Sequence[HistoryEvent]


_ABOUT_CALLS = (
    "tool_call_start",
    "permission_requested",
    "permission_completed",
    "child_started",
    "tool_result",
)


class RunEvents:
    """Every event of a run, as of the last `refresh`.

    An open link answers a query, which adds nothing to its history; a closed one, and an open one
    without a worker, is replayed here.
    """

    def __init__(self, chain: Chain) -> None:
        self._client = chain.client
        self._id = chain.workflow_id
        self._chain = chain
        self._link: RecordedLink | None = None
        self._reader = EventReader([])
        self._refreshing = asyncio.Lock()
        self._has_asked = False
        self._can_replay = True
        self.replay_seconds = 0.0
        """The duration of the last replay of an open link; 0 after a query."""
        self.events: list[RunEvent] = []
        self.transcript = Transcript([])
        """Every message up to the last event, trimmed ones too."""

    @property
    def last_seq(self) -> int:
        """`seq` of the last event; 0 before the first."""
        return self.events[-1].seq if self.events else 0

    @property
    def has_ended(self) -> bool:
        """Return whether the last event is a terminal one."""
        return bool(self.events) and self.events[-1].type in TERMINAL_EVENTS

    @property
    def is_open(self) -> bool:
        """Return whether the run was open at the last refresh."""
        return self._link is not None and not self.has_ended

    @property
    def calling_iteration(self) -> int | None:
        """Return the iteration of the open model call, as of the last event; None between calls."""
        for event in reversed(self.events):
            if event.type in ("llm_start", "llm_complete"):
                return event.iteration if event.type == "llm_start" else None
        return None

    @property
    def tools_under_way(self) -> set[tuple[int, str | None]]:
        """Return the tool calls in execution, as of the last event, by iteration and id: without
        those that wait for a person or are executed by other runs.
        """
        last: dict[tuple[int, str | None], str] = {}
        for event in reversed(self.events):
            if event.type == "llm_start":
                break
            if event.type in _ABOUT_CALLS:
                last.setdefault((event.iteration, event.call_id), event.type)
        return {
            call
            for call, type in last.items()
            if type in ("tool_call_start", "permission_completed")
        }

    @property
    def link(self) -> RecordedLink:
        """Return the last link read. Raises RuntimeError before the first `refresh`."""
        if self._link is None:
            raise RuntimeError("RunEvents.refresh() comes first")
        return self._link

    def events_after(self, seq: int) -> list[RunEvent]:
        """Return the events whose `seq` is above the given one."""
        return self.events[max(seq + 1 - self.events[0].seq, 0) :] if self.events else []

    async def refresh(self, growth: Growth | None = None, *, by_replay: bool = False) -> None:
        """Read the new events. Raises `RPCError` when there is no such run, and like `replay`.

        With `by_replay`, the `growth` of an open link, and the link that follows, are replayed
        unless they are long, and no worker is asked. The first refresh always queries: so the
        worker learns at once of a reader.
        """
        async with self._refreshing:
            is_replayed = by_replay and growth and await self._replay_open(growth)
            if not (self.has_ended or is_replayed):
                await self._refresh(by_replay=by_replay)

    async def _replay_open(self, growth: Growth) -> bool:
        """Replay the history of an open link; return False where it is unknown, or too long."""
        is_open = self._link is not None and self._link.run_id == growth.run_id
        is_closed = growth.events[-1].event_type in CLOSING_EVENTS
        if not (is_open and self._has_asked and self._can_replay) or is_closed:
            return False
        if len(growth.events) > MAX_REPLAYED:
            return False
        events, began = list(growth.events), time.monotonic()
        if not _has_begun(events):
            return True  # There is nothing to replay yet.
        try:
            run = await replay(self._id, events, self._client.data_converter)
        except NOT_REPLAYED:
            # Another version of perdure executes the run.
            self._can_replay = False
            return False
        self.replay_seconds = time.monotonic() - began
        self._take_all(run)
        if self.has_ended:
            self.events.pop()
        return True

    async def _refresh(self, *, by_replay: bool) -> None:
        link, is_next = self._link, False
        if link is None:
            link = await self._chain.at_first_kept(self._open)
        while True:
            if await self._chain.is_running(link.run_id):
                known = Growth(link.run_id, link.history)
                is_replayed = by_replay and is_next and await self._replay_open(known)
                if is_replayed or await self._query(link):
                    return
            link = await self._replay(link)
            if link.next_run_id is None:
                return
            link, is_next = await self._open(link.next_run_id), True

    async def _open(self, run_id: str) -> RecordedLink:
        link = await read_link(self._client, self._id, run_id)
        seed, version = link.seed, link.version
        if self._link is None:
            self._reader = EventReader(seed, version=version)
            self.transcript = Transcript(seed)
        else:
            self._reader.begin_link(seed, version)
            self.transcript.begin_link(seed)
        self._link = link
        return link

    async def _query(self, link: RecordedLink) -> bool:
        """Query the workflow; return False when no worker answers in time."""
        self._has_asked = True
        while True:
            page = await self._ask_while_open(link)
            if page is None:
                return False
            self._add_page(page)
            if not page.more:
                break
        self.replay_seconds = 0.0
        if self.has_ended:
            end = self.events.pop()
            # Until its end is recorded, the run takes it back when a message arrives.
            if not await self._chain.is_running(link.run_id):
                self.events.append(end)
        return True

    async def _ask_while_open(self, link: RecordedLink) -> EventPage | None:
        """Return the next page; None when no worker answers in time, or the link closes meanwhile:
        the server delays a query that meets the end of its link.
        """
        asking = asyncio.create_task(
            ask(self._chain.handle(link.run_id), EVENTS, self.last_seq, answer=EventPage)
        )
        pause = LOOK_SECONDS
        try:
            while not (await asyncio.wait([asking], timeout=pause))[0]:
                if not await self._chain.is_running(link.run_id):
                    return None
                pause *= 2
            return asking.result()
        finally:
            asking.cancel()

    async def _replay(self, link: RecordedLink) -> RecordedLink:
        """Replay the link's current history; return the current link."""
        if link.is_open:
            link = self._link = await read_link(self._client, self._id, link.run_id)
        if link.is_open and not _has_begun(link.history):
            return link
        run = await replay(self._id, link.history, self._client.data_converter)
        self._take_all(run)
        if not link.is_open and not link.next_run_id and not self.has_ended:
            self.events.append(_ended_from_outside(link, self.last_seq + 1))
        return link

    def _take_all(self, run: AgentRun) -> None:
        while True:
            page = run.events(self.last_seq)
            self._add_page(page)
            if not page.more:
                return

    def _add_page(self, page: EventPage) -> None:
        self.events += self._reader.read(page)
        self.transcript.follow(page.operations)


def _ended_from_outside(link: RecordedLink, seq: int) -> RunEvent:
    """Return the terminal event of a run that could not emit one itself: terminated, or timed out
    by Temporal.
    """
    closing = link.closing_event
    assert closing is not None
    kind = EventType.Name(closing.event_type).removeprefix("EVENT_TYPE_WORKFLOW_EXECUTION_").lower()
    return RunEvent(
        seq=seq,
        type="failed",
        iteration=0,
        data={"kind": kind, "message": f"the run was {kind.replace('_', ' ')} from outside"},
        time=closing.event_time.ToSeconds(),
        position=str(seq),
    )
