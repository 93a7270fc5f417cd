"""Words shared by all dialects: the end of an answer, questions to a person, and a person's
message.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from ..json_types import JsonObject
from ..media import source_problem
from ..messages import AudioPart, FilePart, ImagePart, Part, TextPart
from ..text import one_line
from ..tool_calls import PendingApproval, Vote
from .problems import BadParameter

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


def text_and_parts(parts: Sequence[Part]) -> tuple[str, list[Part]]:
    """Return the text with which a message begins, and the parts after it, as `Session.send` takes
    them.
    """
    texts = [
        each.value
        for each in takewhile(lambda part: isinstance(part, TextPart), parts)
        if each.kind == "text"
    ]
    return "".join(texts), list(parts[len(texts) :])


def checked_source(source: str, field: str) -> str:
    """Return the source of a request's image or file. Raises `BadParameter`, with the name of the
    field, if it is neither a URL nor base64.
    """
    if problem := source_problem(source):
        raise BadParameter(field, f"{field}: {problem}")
    return source


def media_part(source: str, media_type: str, filename: str | None = None) -> Part:
    """Return the part for content of this type, which may be as little as `image/*`. Raises as
    `checked_source` does.
    """
    checked_source(source, "messages")
    told = None if media_type.endswith("/*") else media_type or None
    match media_type.partition("/")[0].lower():
        case "image":
            return ImagePart(source=source, mediaType=told)
        case "audio":
            return AudioPart(source=source, mediaType=told)
    return FilePart(source=source, mediaType=told, filename=filename)


def decision_schema(pending: PendingApproval) -> JsonObject:
    """Return the JSON schema of a person's decision: an answer, or an approval with a reason."""
    fields: JsonObject = {
        "approved": {"type": "boolean", "title": "Approve"},
        "reason": {"type": "string", "title": "Why not"},
    }
    if pending.question:
        fields = {"answer": {"type": "string", "title": "Answer"}}
        if pending.choices and not pending.allow_other:
            fields["answer"]["enum"] = pending.choices
    return {"type": "object", "properties": fields, "required": [next(iter(fields))]}


def with_approvers(text: str, pending: PendingApproval) -> str:
    """Return the question to a person, with its approvers and the approvals so far, where given."""
    if (policy := pending.approvers) is None:
        return text
    parts = [text, f"May decide: {policy.in_words()}."]
    if pending.votes:
        names = ", ".join(_vote_text(each) for each in pending.votes)
        parts.append(f"Approved by {names}: another person has to approve the same.")
    return " ".join(filter(None, parts))


def _vote_text(vote: Vote) -> str:
    changed = "" if vote.arguments is None else f" with {output_text(vote.arguments)}"
    return one_line(f"{vote.name}{changed}", 300)
