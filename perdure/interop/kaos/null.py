"""The memory of an agent that has none: the same calls, which keep nothing."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from .event import MemoryEvent
from .memory import SessionMemory


class NullMemory:
    """Takes every call of `KaosMemory` and keeps nothing; no call asks a server, or raises."""

    async def create_session(self, app_name: str = "", user_id: str = "", session_id: str | None = None) -> str:
        """The given id, or one that is always the same."""
        return session_id or "null-session"

    async def get_session(self, session_id: str) -> SessionMemory | None:
        """None."""
        return None

    async def get_or_create_session(self, session_id: str, app_name: str = "agent", user_id: str = "user") -> str:
        """The given id."""
        return session_id

    async def add_event(
        self,
        session_id: str,
        event_or_type: MemoryEvent | str | None = None,
        content: Any = None,
        metadata: dict[str, Any] | None = None,
    ) -> bool:
        """True."""
        return True

    def create_event(self, event_type: str, content: Any, metadata: dict[str, Any] | None = None) -> MemoryEvent:
        """An event that is kept nowhere."""
        return MemoryEvent(f"null_{secrets.token_hex(4)}", datetime.now(UTC), event_type, content, metadata or {})

    async def get_session_events(self, session_id: str, event_types: Sequence[str] | None = None) -> list[MemoryEvent]:
        """[]."""
        return []

    async def build_conversation_context(self, session_id: str, max_events: int = 20) -> str:
        """No text."""
        return ""

    async def list_sessions(self, user_id: str | None = None) -> list[str]:
        """[]."""
        return []

    async def delete_session(self, session_id: str) -> bool:
        """True."""
        return True

    async def get_memory_stats(self) -> dict[str, int]:
        """Zeros."""
        return {"total_sessions": 0, "total_events": 0, "avg_events_per_session": 0}

    async def cleanup_old_sessions(self, max_age_hours: float = 24) -> int:
        """0."""
        return 0
