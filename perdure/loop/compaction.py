"""Asks the compactor for the summary of what is about to be dropped (§13.3)."""

from __future__ import annotations

from collections.abc import Callable

from ..conversation import Conversation
from ..event_data import CompactionCompleteData, CompactionFailedData, CompactionStartData, EventType, LoggedData
from ..trimming import TrimPlan
from .effects import Cancelled, Effects


async def compactor_summary(
    plan: TrimPlan, conversation: Conversation, effects: Effects, emit: Callable[[EventType, LoggedData], None]
) -> str:
    """The compactor's summary; "" when it failed or gave none: then the built-in one is used. Raises `Cancelled`."""
    emit("compaction_start", CompactionStartData())
    try:
        summary = await effects.compact(conversation, plan.head, plan.drop)
    except Cancelled:
        raise
    except Exception as error:
        emit("compaction_failed", CompactionFailedData(message=str(error)))
        return ""
    if not summary.strip():
        emit("compaction_failed", CompactionFailedData(message="the compactor gave an empty summary"))
        return ""
    removed = len(plan.dropped(conversation.messages))
    remaining = len(conversation.messages) - removed + 1
    emit("compaction_complete", CompactionCompleteData(removed=removed, remaining=remaining))
    return summary
