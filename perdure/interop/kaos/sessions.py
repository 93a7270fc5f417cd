"""Sessions that a server keeps, and the events of one: those of its runs, and added notes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Container, Sequence
from contextlib import suppress
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
from ...protocol.names import SESSION_WORKFLOW
from ...protocol.search_attributes import shown_of
from .events import MemoryEvent, run_events

AT_ONCE = 8
"""The number of runs that are read at the same time."""
MAX_BYTES = 32 * 1024 * 1024
"""The approximate memory for the events of ended runs."""


class SessionEvents:
    """Reads the events of sessions; those of ended runs are read once, as long as they fit into the
    cache.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._ended: LRUCache[str, list[MemoryEvent]] = LRUCache(MAX_BYTES, getsizeof=_memory_bytes)

    async def newest(self, session: str, limit: int) -> list[MemoryEvent]:
        """Return the newest events of the session, at most `limit`, the oldest first.

        A run that is not kept any more has none. Raises `RunNotFound` when there is no such
        session, and the errors of `RunHandle.events`.
        """
        links = [link async for link in Reader(self._client, session).links()]
        turns = [turn for link in links for turn in link.turns]
        events: list[MemoryEvent] = []
        while turns and len(events) < limit:
            runs = await asyncio.gather(*map(self._events, turns[-AT_ONCE:]))
            events = [event for run in runs for event in run] + events
            del turns[-AT_ONCE:]
        notes = [note for link in links for note in link.notes]
        return _with_notes(session, events, notes)[-limit:]

    async def _events(self, turn: RecordedTurn) -> list[MemoryEvent]:
        if (known := self._ended.get(turn.first_run_id)) is not None:
            return known
        try:
            events = await run_events(self._client, turn.run_id, turn.first_run_id)
        except RunNotFound:
            return []
        if turn.ended is not None:
            with suppress(ValueError):  # cachetools: "value too large"
                self._ended[turn.first_run_id] = events
        return events


def _memory_bytes(events: list[MemoryEvent]) -> int:
    return sum(1000 + 2 * len(str(event.content)) for event in events)


def _with_notes(
    session: str, events: list[MemoryEvent], notes: Sequence[RecordedNote]
) -> list[MemoryEvent]:
    """Return the events with each note in its place by time."""
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
    """Return the server's description of the session of that id; None when there is none. Raises
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
