"""KAOS's memory, with the methods of its Python class: Temporal keeps it, unless the environment
disables it.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from os import PathLike
from typing import Any

from pydantic import BaseModel, PositiveInt, ValidationError
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from ...agents import Agent
from ...client import RunOptions, Session, session
from ...client.deletion import delete_session
from ...errors import ConfigurationError, RunNotFound
from ...json_types import JsonObject
from ...payloads.converter import with_converter
from ...payloads.failures import require_sendable
from ...protocol.names import NOTE
from ...protocol.session import SessionNote
from ...redaction import redactor
from ...text import valid_json
from .events import MemoryEvent
from .sessions import SessionEvents, Stored, stored_session, stored_sessions

logger = logging.getLogger("perdure")

MAX_SESSIONS = 1000
MAX_EVENTS = 500


@dataclass
class SessionMemory:
    """A session and its events, by KAOS's names."""

    session_id: str
    user_id: str
    app_name: str
    """The name of its agent."""
    events: deque[MemoryEvent] = field(default_factory=deque)
    created_at: datetime = datetime.min.replace(tzinfo=UTC)
    updated_at: datetime = datetime.min.replace(tzinfo=UTC)

    def to_dict(self) -> JsonObject:
        """Return the session as JSON, its times as ISO 8601."""
        return {
            "session_id": self.session_id,
            "user_id": self.user_id,
            "app_name": self.app_name,
            "events": [event.to_dict() for event in self.events],
            "created_at": self.created_at.isoformat(),
            "updated_at": self.updated_at.isoformat(),
        }


class KaosMemory:
    """The sessions of one agent, and all other sessions that the server keeps.

    `agent` is needed only to begin sessions (`create_session`, `get_or_create_session`);
    `task_queue` and `options` are as for `session`. Nothing is ever evicted: of more sessions than
    `max_sessions`, and of more events than `max_events_per_session`, the newest are given. All
    calls raise `RPCError` when the server does not answer.
    """

    def __init__(
        self,
        client: Client,
        agent: Agent | str | PathLike[str] | None = None,
        *,
        task_queue: str = "perdure",
        options: RunOptions | None = None,
        max_sessions: int = MAX_SESSIONS,
        max_events_per_session: int = MAX_EVENTS,
    ) -> None:
        self._client = with_converter(client)
        self._agent = agent
        self._task_queue = task_queue
        self._options = options
        self._events = SessionEvents(self._client)
        self._removed: set[str] = set()
        """The run ids of what the server is about to remove."""
        self.max_sessions = max_sessions
        self.max_events_per_session = max_events_per_session

    def session(self, session_id: str, *, user_id: str | None = None) -> Session:
        """Return the session of that id, to send it messages: `await
        memory.session(id).send("Hi")`. Raises ValueError.
        """
        return session(
            self._client,
            self._agent,
            session_id,
            task_queue=self._task_queue,
            options=self._options,
            user=user_id,
        )

    async def _stored_session(self, session_id: str) -> Stored | None:
        stored = await stored_session(self._client, session_id)
        return None if stored is None or stored.run_id in self._removed else stored

    async def create_session(
        self, app_name: str = "agent", user_id: str = "user", session_id: str | None = None
    ) -> str:
        """Begin a session, unless one of that id is open, and return its id; the agent's name is
        its `app_name`.

        Raises `ConfigurationError` without an agent, and what `Session.begin` raises.
        """
        if self._agent is None:
            raise ConfigurationError("a session needs an agent to begin: KaosMemory(client, agent)")
        id = session_id or f"session_{secrets.token_hex(6)}"
        await self.session(id, user_id=user_id).begin()
        return id

    async def get_session(self, session_id: str) -> SessionMemory | None:
        """Return the session with its events; None when there is none."""
        stored = await self._stored_session(session_id)
        if stored is None:
            return None
        events = await self.get_session_events(session_id)
        return SessionMemory(
            session_id,
            stored.user_id,
            stored.app_name,
            deque(events),
            stored.created_at,
            stored.updated_at,
        )

    async def get_or_create_session(
        self, session_id: str, app_name: str = "agent", user_id: str = "user"
    ) -> str:
        """Return the id of the session, which begins if there is none. Raises as `create_session`
        does.
        """
        if await self._stored_session(session_id) is None:
            await self.create_session(app_name, user_id, session_id)
        return session_id

    async def add_event(
        self,
        session_id: str,
        event_or_type: MemoryEvent | str,
        content: Any = None,
        metadata: JsonObject | None = None,
    ) -> bool:
        """Add an event of any type to an open session, which its agent does not see; False when
        there is none.

        Its id and time are those of its arrival. Raises `PayloadTooLargeError`.
        """
        event = event_or_type
        if isinstance(event, str):
            event = self.create_event(event, content, metadata)
        note = SessionNote(
            type=event.event_type,
            content=valid_json(event.content),
            metadata=valid_json(event.metadata),
        )
        note = redactor().value(note)
        await require_sendable(self._client, note, "The event", lambda: "Add less")
        if await self._stored_session(session_id) is not None:
            try:
                await self._client.get_workflow_handle(session_id).signal(NOTE, note)
                return True
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:
                    raise
        logger.warning(
            "session %s: there is none that is open, and the event was not added", session_id
        )
        return False

    @staticmethod
    def create_event(
        event_type: str, content: Any, metadata: JsonObject | None = None
    ) -> MemoryEvent:
        """Return an event for `add_event`."""
        return MemoryEvent(
            f"event_{secrets.token_hex(4)}", datetime.now(UTC), event_type, content, metadata or {}
        )

    async def get_session_events(
        self, session_id: str, event_types: Sequence[str] | None = None
    ) -> list[MemoryEvent]:
        """Return the events of a session, or those of these types; [] when there is none."""
        if self._removed and await self._stored_session(session_id) is None:
            return []
        try:
            events = await self._events.newest(session_id, self.max_events_per_session)
        except RunNotFound:
            return []
        return [event for event in events if not event_types or event.event_type in event_types]

    async def build_conversation_context(self, session_id: str, max_events: int = 20) -> str:
        """Return the last messages, as lines that begin with `User: ` and `Assistant: `."""
        speakers = {"user_message": "User", "agent_response": "Assistant"}
        events = await self.get_session_events(session_id, list(speakers))
        last = events[-max_events:] if max_events > 0 else []
        return "\n".join(f"{speakers[event.event_type]}: {event.content}" for event in last)

    async def list_sessions(self, user_id: str | None = None) -> list[str]:
        """Return the ids of the newest sessions, of one user if given, the oldest of them first."""
        found: list[str] = []
        async for id in stored_sessions(self._client, without=self._removed, user=user_id):
            found.append(id)
            if len(found) == self.max_sessions:
                break
        return found[::-1]

    async def delete_session(self, session_id: str) -> bool:
        """Have the server remove a session and its runs, open or closed, for good; False when there
        is none.

        The server takes up to some minutes for it, in which other readers still find what has ended
        by then.
        """
        if await self._stored_session(session_id) is None:
            return False
        self._removed |= await delete_session(self._client, session_id)
        return True

    async def get_memory_stats(self) -> dict[str, int]:
        """Return the numbers of sessions and events, for which it reads all sessions."""
        sessions = await self.list_sessions()
        events = sum([len(await self.get_session_events(id)) for id in sessions])
        average = events // len(sessions) if sessions else 0
        return {
            "total_sessions": len(sessions),
            "total_events": events,
            "avg_events_per_session": average,
        }

    async def cleanup_old_sessions(self, max_age_hours: float = 24) -> int:
        """Remove the sessions without events for so long, as `delete_session` does; return their
        number.
        """
        oldest = datetime.now(UTC) - timedelta(hours=max_age_hours)
        removed = 0
        for id in [
            id async for id in stored_sessions(self._client, without=self._removed, before=oldest)
        ]:
            stored = await self._stored_session(id)
            if stored is not None and stored.updated_at < oldest:
                removed += await self.delete_session(id)
        return removed


def _returning(value: Any) -> Callable[..., Coroutine[Any, Any, Any]]:
    async def call(self: NullMemory, *args: Any, **more: Any) -> Any:
        return copy(value)

    return call


class NullMemory:
    """Accepts all calls of `KaosMemory` and keeps nothing; no call contacts a server, or raises."""

    async def create_session(
        self, app_name: str = "", user_id: str = "", session_id: str | None = None
    ) -> str:
        """Return the given id, or one that is always the same."""
        return session_id or "null-session"

    async def get_or_create_session(
        self, session_id: str, app_name: str = "agent", user_id: str = "user"
    ) -> str:
        """Return the given id."""
        return session_id

    create_event = KaosMemory.create_event
    get_session = _returning(None)
    add_event = _returning(True)
    get_session_events = _returning([])
    build_conversation_context = _returning("")
    list_sessions = _returning([])
    delete_session = _returning(True)
    get_memory_stats = _returning(
        {"total_sessions": 0, "total_events": 0, "avg_events_per_session": 0}
    )
    cleanup_old_sessions = _returning(0)


class _Environment(BaseModel):
    MEMORY_ENABLED: bool = True
    MEMORY_MAX_SESSIONS: PositiveInt = MAX_SESSIONS
    MEMORY_MAX_SESSION_EVENTS: PositiveInt = MAX_EVENTS


def memory_from_environment(
    client: Client,
    agent: Agent | str | PathLike[str] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    **more: Any,
) -> KaosMemory | NullMemory:
    """Return the memory that `MEMORY_ENABLED`, `MEMORY_MAX_SESSIONS` and
    `MEMORY_MAX_SESSION_EVENTS` describe.

    `more` is as for `KaosMemory`. The Temporal server keeps the sessions, whatever `MEMORY_TYPE`
    names. Raises `ConfigurationError`, which names the variable, for an invalid value.
    """
    values = os.environ if environment is None else environment
    given = {name: text.strip() for name, text in values.items() if text.strip()}
    try:
        read = _Environment.model_validate(given)
    except ValidationError as error:
        fault = error.errors()[0]
        raise ConfigurationError(
            f"{fault['loc'][0]}={fault['input']!r:.80}: {fault['msg']}"
        ) from None
    if not read.MEMORY_ENABLED:
        return NullMemory()
    more["max_sessions"] = read.MEMORY_MAX_SESSIONS
    more["max_events_per_session"] = read.MEMORY_MAX_SESSION_EVENTS
    return KaosMemory(client, agent, **more)
