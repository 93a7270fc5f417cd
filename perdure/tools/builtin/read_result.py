"""The built-in tool `read_result`: pages through a result that was too long for the conversation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...excerpt import counted, utf8, utf8_bytes
from ...kept_results import UnknownCallError
from ...messages import TextPart
from ...result_sizes import SHOWN_BYTES
from ..kind import KindCall, Offering
from .base import BuiltInTool

HEAD_BYTES = 512
"""Kept free for what is said about the part that is shown."""
LEAST_BYTES = 256
"""Of the part itself, however small the limit is."""
MAX_MATCHES = 20
AROUND_MATCH = 150
"""Characters shown before and after each place that was found."""


class ReadResult(BuiltInTool):
    """Shows a part of a result of an earlier call of this run, or the places of a text in it."""

    offering = Offering(
        name="read_result",
        description=(
            "Read a part of the result of an earlier tool call that was too long to be shown whole, or search in it."
        ),
        parameters={
            "type": "object",
            "properties": {
                "call_id": {"type": "string", "description": "The id of the tool call, as the shortened result says."},
                "iteration": {"type": "integer", "description": "The call's iteration, if several have that id."},
                "offset": {"type": "integer", "minimum": 0, "description": "The first character; 0 if absent."},
                "length": {"type": "integer", "minimum": 1, "description": "How many characters, at most."},
                "search": {
                    "type": "string",
                    "minLength": 1,
                    "description": "Show the places, from the offset on, that have this text, in any case.",
                },
            },
            "required": ["call_id"],
        },
    )

    async def execute(self, call: KindCall) -> Any:
        """Raises UnknownCallError, with the calls that there are."""
        asked, find = call.arguments, call.context.kept_results
        if find is None:
            raise UnknownCallError("no results are kept here")
        result = await find(asked["call_id"], asked.get("iteration"), ignored=[call.name])
        text, offset = result.text, asked.get("offset", 0)
        if "search" in asked:
            return _places(text, asked["search"], offset)
        policy = call.tool.perdure
        most = (policy and policy.max_result) or call.context.max_result or SHOWN_BYTES
        limit = max(most, HEAD_BYTES + LEAST_BYTES) - HEAD_BYTES
        others = [part.kind for part in result.parts if not isinstance(part, TextPart)]
        return _page(text, offset, min(asked.get("length", limit), limit), limit, others)


def _page(text: str, offset: int, length: int, limit: int, others: Sequence[str]) -> str:
    """At most `length` characters, and at most `limit` bytes of them, under a line that says what they are."""
    piece = text[offset : offset + length]
    if utf8_bytes(piece) > limit:
        piece = utf8(piece)[:limit].decode(errors="ignore")
    end = offset + len(piece)
    if not piece:
        return f"[the result has {counted(len(text), 'character')}: nothing begins at {offset:,}]"
    more = f"; the rest begins at offset {end}" if end < len(text) else ", which is its end"
    media = f"; besides, it has {', '.join(others)}" if others else ""
    return f"[characters {offset:,} to {end:,} of {len(text):,}{more}{media}]\n{piece}"


def _folded(text: str) -> str:
    """The text without a difference between upper and lower case, and of the same length."""
    return text.replace("\u0130", "i").lower().replace("\u03c2", "\u03c3")


def _starts(text: str, sought: str, offset: int) -> Iterator[int]:
    # An expression would take a time that grows with the product of the lengths.
    while (offset := text.find(sought, offset)) >= 0:
        yield offset
        offset += max(1, len(sought))


def _places(text: str, sought: str, offset: int) -> str:
    """The first places of the text, each with what is around it."""
    found = list(_starts(_folded(text), _folded(sought), offset))
    if not found:
        return f"[not found in the {len(text):,} characters, from offset {offset:,} on]"
    shown = found[:MAX_MATCHES]
    places = [
        f"offset {start}: …{text[max(0, start - AROUND_MATCH) : start + len(sought) + AROUND_MATCH]}…"
        for start in shown
    ]
    rest = f"; search on from offset {found[MAX_MATCHES]}" if len(found) > MAX_MATCHES else ""
    return "\n\n".join([f"[found in {counted(len(found), 'place')}{rest}]", *places])
