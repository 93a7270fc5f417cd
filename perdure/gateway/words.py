"""Sentences shared by all dialects: the end of an answer, and questions to a person."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..text import one_line
from ..tool_calls import PendingApproval, Vote

FINISHES: Mapping[str | None, str] = {
    None: "stop",
    "length": "length",
    "content_filter": "content_filter",
    "limit": "length",
}
"""OpenAI's `finish_reason`, by the reason for which an answer was cut short."""
CUT_SHORT: Mapping[str, str] = {
    "length": "The answer was cut short: it has the most tokens that its model may write.",
    "content_filter": "The answer was cut short by a filter of its model's provider.",
    "limit": "The answer is not complete: a limit of the run was reached.",
}
"""The same, in words."""


def output_text(output: Any) -> str:
    """Return a run's output as text; other values as JSON."""
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)


def with_deciders(text: str, pending: PendingApproval) -> str:
    """Return the question to a person, with its deciders and the approvals so far, where given."""
    if (policy := pending.deciders) is None:
        return text
    parts = [text, f"May decide: {policy.in_words()}."]
    if pending.votes:
        names = ", ".join(_vote_text(each) for each in pending.votes)
        parts.append(f"Approved by {names}: another person has to approve the same.")
    return " ".join(filter(None, parts))


def _vote_text(vote: Vote) -> str:
    changed = "" if vote.arguments is None else f" with {output_text(vote.arguments)}"
    return one_line(f"{vote.name}{changed}", 300)
