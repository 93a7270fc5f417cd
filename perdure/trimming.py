"""Keeps the model's conversation within a budget of characters (§13.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .conversation import Conversation, message_chars
from .messages import Message

KEPT_AT_LEAST = 2
"""At least this many messages, system messages not counted, are never dropped."""
SUMMARY_CHARS = 4000
"""The built-in summary is cut to this length."""
SUMMARY = "[Context summary: "
QUOTE_CHARS = 200
"""The built-in summary quotes this much of each message."""


@dataclass(frozen=True)
class TrimPlan:
    """Drop the `drop` messages after the first `head`, except system messages."""

    head: int
    drop: int

    def dropped_messages(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages that a summary replaces."""
        return [
            message
            for message in messages[self.head : self.head + self.drop]
            if not message.instructs
        ]


def estimate_chars(messages: Sequence[Message]) -> int:
    """Size of the messages in characters: the length of texts, 200 for any other part, tool calls
    as JSON.
    """
    return sum(map(message_chars, messages))


def plan_trim(
    messages: Sequence[Message],
    sizes: Sequence[int],
    budget_chars: int,
    *,
    keep: int = KEPT_AT_LEAST,
    trim_to: float = 1.0,
) -> TrimPlan | None:
    """Return the messages to drop so that the rest fits; None if they fit already, or if none may
    be dropped.

    The oldest groups are dropped as a whole (an assistant message with its tool results), until the
    rest and a summary take `trim_to` of the budget without the system messages. All system messages
    stay, wherever they are, and at least `keep` others.
    """
    total = sum(sizes)
    if total <= budget_chars:
        return None
    instructions = sum(
        size for message, size in zip(messages, sizes, strict=True) if message.instructs
    )
    room_left = int((1 - trim_to) * max(0, budget_chars - instructions))
    target = budget_chars - summary_budget(budget_chars) - room_left
    head = end = next(
        (index for index, message in enumerate(messages) if not message.instructs), len(messages)
    )
    left = sum(not message.instructs for message in messages)
    drop = 0
    while total > target and end < len(messages):
        start, end = end, _group_end(messages, end)
        if messages[start].instructs:
            continue
        left -= end - start
        if left < keep:
            break
        total -= sum(sizes[start:end])
        drop = end - head
    return TrimPlan(head, drop) if drop else None


def summary_budget(budget_chars: int) -> int:
    """Return the characters of the budget that are reserved for the summary."""
    return min(5000, int(budget_chars * 0.05))


def _group_end(messages: Sequence[Message], start: int) -> int:
    """Return the index after the group that starts at `start`; tool results belong to the message
    before them.
    """
    end = start + 1
    while end < len(messages) and messages[end].role == "tool":
        end += 1
    return end


def summarize_dropped(messages: Sequence[Message]) -> str:
    """Return the built-in summary: the user's questions, the assistant's texts, and the tools that
    it called.
    """
    lines: list[str] = []
    for message in messages:
        if message.role == "user":
            lines.append("User asked: " + message.text[:QUOTE_CHARS])
        elif message.role == "assistant":
            if message.text:
                lines.append("Assistant: " + message.text[:QUOTE_CHARS])
            if calls := message.tool_calls:
                lines.append("  Called tools: " + ", ".join(call.name for call in calls))
    return "\n".join(lines)[:SUMMARY_CHARS]


def summary_message(summary: str) -> Message:
    """Return the user message that replaces the dropped messages."""
    return Message.user(f"{SUMMARY}{summary}]")


def is_summary(message: Message) -> bool:
    """Return whether the message looks like one that replaces dropped messages."""
    return message.role == "user" and message.text.startswith(SUMMARY)


def trim_to_context_window(
    messages: Sequence[Message], budget_chars: int
) -> tuple[list[Message], list[Message]]:
    """Return the messages to keep within `budget_chars`, and the dropped ones.

    If any are dropped, the first list has their built-in summary. It exceeds the budget if the
    system messages and the last two others do: those are always kept. Never raises.
    """
    plan = plan_trim(messages, [message_chars(message) for message in messages], budget_chars)
    trimmed = Conversation(messages)
    dropped = plan.dropped_messages(messages) if plan else []
    if plan:
        trimmed.trim(plan.head, plan.drop, summary_message(summarize_dropped(dropped)))
    return trimmed.messages, dropped
