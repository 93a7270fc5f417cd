"""One event of a session, as KAOS's memory has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

EVENT_TYPES = (
    "user_message",
    "task_delegation_received",
    "tool_call",
    "tool_result",
    "tool_error",
    "delegation_request",
    "delegation_response",
    "delegation_error",
    "agent_response",
    "format_warning",
    "error",
)
"""The types that a session's own events have. Those that `add_event` adds may have any."""


@dataclass
class MemoryEvent:
    """One event, by KAOS's names."""

    event_id: str
    """`event_` and 8 hexadecimal digits; the same whenever the event is read."""
    timestamp: datetime
    event_type: str
    content: Any
    metadata: dict[str, Any] = field(default_factory=dict)
    """`run_id`, and `trace_id` and `span_id` where they are known: those of the run's OpenTelemetry trace."""

    def to_dict(self) -> dict[str, Any]:
        """The event as JSON, its time as ISO 8601."""
        return {
            "event_id": self.event_id,
            "timestamp": self.timestamp.isoformat(),
            "event_type": self.event_type,
            "content": self.content,
            "metadata": self.metadata,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> MemoryEvent:
        """The event that `to_dict` has written. Raises KeyError and ValueError for anything else."""
        return cls(
            data["event_id"],
            datetime.fromisoformat(data["timestamp"]),
            data["event_type"],
            data["content"],
            dict(data["metadata"]),
        )
