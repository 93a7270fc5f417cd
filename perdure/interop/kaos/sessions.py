"""Sessions that a server keeps, and the events of one: those of its runs, and notes that somebody
has added.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Container, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from typing import NamedTuple

from cachetools import LRUCache
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.client import Client

from ...client.sessions.reading import Reader
from ...errors import RunNotFound
from ...history.session import RecordedNote, RecordedTurn
from ...messages import Message
from ...protocol.names import SESSION_WORKFLOW
from ...protocol.search_attributes import shown_of
from ...trace_ids import TraceIds
from .events import MemoryEvent, RunMemory, TimedMessage, events_of, read_run

AT_ONCE = 8
"""So many runs are read at the same time."""
MAX_BYTES = 32 * 1024 * 1024
"""About how much memory the events of runs that have ended may take."""


@dataclass
class SessionTurns:
    """What the session itself has of its turns, and the notes."""

    turns: list[RecordedTurn] = field(default_factory=list)
    notes: list[RecordedNote] = field(default_factory=list)
    transcript: Sequence[Message] = ()

    def said_in(self, place: int) -> list[TimedMessage]:
        """Messages of the turn at that place, with the times of the turn: when it has begun, when
        it has ended.
        """
        turn, later = self.turns[place], self.turns[place + 1 :]
        end = later[0].said_before if later else len(self.transcript)
        messages = self.transcript[turn.said_before : end]
        return [
            TimedMessage(each, turn.since if each.role == "user" else turn.until or turn.since)
            for each in messages
        ]


class SessionEvents:
    """Reads the events of sessions; those of runs that have ended are read once, as long as there
    is room for them.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._ended: LRUCache[str, list[MemoryEvent]] = LRUCache(MAX_BYTES, getsizeof=_memory_bytes)

    async def newest(self, session: str, limit: int) -> list[MemoryEvent]:
        """Return the newest events of the session, at most `limit`, the oldest first.

        A run that is not kept any more has those of the session's own conversation. Raises
        `RunNotFound` when there is no such session, and what `RunHandle.events` raises otherwise.
        """
        recorded = await read_recorded(self._client, session)
        events: list[MemoryEvent] = []
        place = len(recorded.turns)
        while place and len(events) < limit:
            first = max(place - AT_ONCE, 0)
            runs = await asyncio.gather(
                *(self._events(recorded, each) for each in range(first, place))
            )
            events = [event for run in runs for event in run] + events
            place = first
        return _with_notes(session, events, recorded.notes)[-limit:]

    async def _events(self, recorded: SessionTurns, place: int) -> list[MemoryEvent]:
        turn = recorded.turns[place]
        if (known := self._ended.get(turn.first_run_id)) is not None:
            return known
        try:
            events = events_of(await read_run(self._client, turn.run_id, turn.first_run_id))
        except RunNotFound:
            return events_of(_lost_run(self._client, recorded, place))
        if turn.ended is not None:
            with suppress(ValueError):  # cachetools: "value too large"
                self._ended[turn.first_run_id] = events
        return events


async def read_recorded(client: Client, session: str) -> SessionTurns:
    """Return what the histories of the session have. Raises `RunNotFound` when there is no such
    session.
    """
    recorded = SessionTurns()
    async for link in Reader(client, session).links():
        recorded.turns += link.turns
        recorded.notes += link.notes
        recorded.transcript = link.transcript
    return recorded


def _lost_run(client: Client, recorded: SessionTurns, place: int) -> RunMemory:
    turn = recorded.turns[place]
    has_failed = turn.ended not in (None, "done")
    return RunMemory(
        turn.run_id,
        recorded.said_in(place),
        ids=TraceIds.of(client.namespace, turn.run_id, turn.first_run_id),
        failure=f"the run {str(turn.ended).replace('_', ' ')}; its history is not kept any more"
        if has_failed
        else "",
        until=turn.until or turn.since,
    )


def _memory_bytes(events: list[MemoryEvent]) -> int:
    return sum(1000 + 2 * len(str(event.content)) for event in events)


def _with_notes(
    session: str, events: list[MemoryEvent], notes: Sequence[RecordedNote]
) -> list[MemoryEvent]:
    """Each note comes after the events that were there when it was added."""
    for number, recorded in enumerate(notes):
        note, time = recorded.note, datetime.fromtimestamp(recorded.time, UTC)
        what = json.dumps([session, number, note.type, recorded.time])
        id = f"event_{blake2b(what.encode(), digest_size=4).hexdigest()}"
        place = next(
            (place for place, event in enumerate(events) if event.timestamp > time), len(events)
        )
        events.insert(place, MemoryEvent(id, time, note.type, note.content, dict(note.metadata)))
    return events


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
    client: Client,
    *,
    without: Container[str],
    user: str | None = None,
    before: datetime | None = None,
) -> AsyncIterator[str]:
    """Yield the ids of the sessions, the newest first, `without` those of such run ids.

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
    """Return what the server tells of a session of that id; None when there is none. Raises
    `RPCError`.
    """
    try:
        described = await Reader(client, id).describe()
    except RunNotFound:
        return None
    memo, shown = await described.memo(), await shown_of(described)
    link = WorkflowExecution(workflow_id=id, run_id=described.run_id)
    latest = await client.workflow_service.get_workflow_execution_history_reverse(
        GetWorkflowExecutionHistoryReverseRequest(
            namespace=client.namespace, execution=link, maximum_page_size=1
        ),
        retry=True,
    )
    updated = (
        latest.history.events[0].event_time.ToDatetime(UTC)
        if latest.history.events
        else described.start_time
    )
    return Stored(
        id, described.run_id, shown.agent or "", str(memo.get("user", "")), shown.started, updated
    )
