"""perdure's own tools (`kind: builtin`), and tools that a provider executes (`kind: provider`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from ..declared_tools import Tool
from ..errors import UnknownCallError
from ..messages import TextPart
from ..text import count_of, did_you_mean, utf8, utf8_bytes
from ..tool_calls import Question
from ..tool_results import SHOWN_BYTES
from .kind import Asking, KindCall, Offering, ToolKind


class BuiltInTool:
    """Base of each built-in tool; `BUILT_IN_TOOLS` is the table of them."""

    offering: ClassVar[Offering]
    """The function offered to the model."""

    def problems(self, tool: Tool) -> Sequence[str]:
        """Return the faults of a declaration beyond the common ones, a sentence each."""
        return ()

    async def execute(self, call: KindCall) -> Any:
        """Execute one call, unless `offering.execution` has another executor. Raises errors that
        become the tool's error.
        """
        raise NotImplementedError


class AskUser(BuiltInTool):
    offering = Offering(
        name="ask_user",
        description=(
            "Ask the user a question and wait for the answer. Use it when you can't go on without "
            "a decision or a piece of information that only the user has."
        ),
        parameters={
            "type": "object",
            "properties": {
                "question": {"type": "string", "description": "The question, complete in itself."},
                "choices": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Answers to choose from, if there are any.",
                },
                "allow_other": {
                    "type": "boolean",
                    "description": (
                        "False if the answer must be one of the choices; true if absent."
                    ),
                },
            },
            "required": ["question"],
        },
        idempotent=False,
        execution=Question(),
    )

    def problems(self, tool: Tool) -> Sequence[str]:
        if tool.perdure and tool.perdure.approval == "always":
            return [
                "perdure.approval is 'always': leave it out, because a person answers every "
                "question anyway"
            ]
        return ()

    async def execute(self, call: KindCall) -> Any:
        raise NotImplementedError("the run itself asks, and waits for the answer")


HEAD_BYTES = 512
"""Bytes reserved for the description of the shown part."""
LEAST_BYTES = 256
"""Least bytes of the part itself, even for a smaller limit."""
MAX_MATCHES = 20
AROUND_MATCH = 150
"""Characters shown before and after each match."""


class ReadResult(BuiltInTool):
    """Shows a part of an earlier call's result in this run, or the matches of a text in it."""

    offering = Offering(
        name="read_result",
        description=(
            "Read a part of the result of an earlier tool call that was too long to be shown "
            "whole, or search in it."
        ),
        parameters={
            "type": "object",
            "properties": {
                "call_id": {
                    "type": "string",
                    "description": "The id of the tool call, as given in the shortened result.",
                },
                "iteration": {
                    "type": "integer",
                    "description": "The call's iteration, if several have that id.",
                },
                "offset": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "The first character; 0 if absent.",
                },
                "length": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "How many characters, at most.",
                },
                "search": {
                    "type": "string",
                    "minLength": 1,
                    "description": (
                        "Show the places, from the offset on, that have this text, in any case."
                    ),
                },
            },
            "required": ["call_id"],
        },
    )

    async def execute(self, call: KindCall) -> Any:
        """Return the requested part. Raises UnknownCallError, which names the existing calls."""
        asked, find = call.arguments, call.context.kept_results
        if find is None:
            raise UnknownCallError("no results are kept here")
        result = await find(asked["call_id"], asked.get("iteration"), ignored=[call.name])
        text, offset = result.text, asked.get("offset", 0)
        if "search" in asked:
            return _matches_text(text, asked["search"], offset)
        policy = call.tool.perdure
        most = (policy and policy.max_result) or call.context.max_result or SHOWN_BYTES
        limit = max(most, HEAD_BYTES + LEAST_BYTES) - HEAD_BYTES
        others = [part.kind for part in result.parts if not isinstance(part, TextPart)]
        return _page(text, offset, min(asked.get("length", limit), limit), limit, others)


def _page(text: str, offset: int, length: int, limit: int, others: Sequence[str]) -> str:
    """Return at most `length` characters, and at most `limit` bytes of them, under a line that
    describes them.
    """
    piece = text[offset : offset + length]
    if utf8_bytes(piece) > limit:
        piece = utf8(piece)[:limit].decode(errors="ignore")
    end = offset + len(piece)
    if not piece:
        return f"[the result has {count_of(len(text), 'character')}: nothing begins at {offset:,}]"
    more = f"; the rest begins at offset {end}" if end < len(text) else ", which is its end"
    media = f"; besides, it has {', '.join(others)}" if others else ""
    return f"[characters {offset:,} to {end:,} of {len(text):,}{more}{media}]\n{piece}"


def _case_folded_text(text: str) -> str:
    """Return the text with case differences removed, and the same length."""
    return text.replace("\u0130", "i").lower().replace("\u03c2", "\u03c3")


def _match_starts(text: str, sought: str, offset: int) -> Iterator[int]:
    # A regular expression would take time proportional to the product of the lengths.
    while (offset := text.find(sought, offset)) >= 0:
        yield offset
        offset += max(1, len(sought))


def _matches_text(text: str, sought: str, offset: int) -> str:
    """Return the first matches of the text, each with its surroundings."""
    found = list(_match_starts(_case_folded_text(text), _case_folded_text(sought), offset))
    if not found:
        return f"[not found in the {len(text):,} characters, from offset {offset:,} on]"
    shown = found[:MAX_MATCHES]
    places = [
        f"offset {start}: "
        f"…{text[max(0, start - AROUND_MATCH) : start + len(sought) + AROUND_MATCH]}…"
        for start in shown
    ]
    rest = f"; search on from offset {found[MAX_MATCHES]}" if len(found) > MAX_MATCHES else ""
    return "\n\n".join([f"[found in {count_of(len(found), 'place')}{rest}]", *places])


BUILT_IN_TOOLS: Mapping[str, BuiltInTool] = {
    tool.offering.name: tool for tool in [AskUser(), ReadResult()]
}
"""Name → tool."""


class BuiltInTools(ToolKind):
    """Offers a built-in tool only where the file declares it."""

    def problems(self, tool: Tool) -> Sequence[str]:
        found = BUILT_IN_TOOLS.get(tool.name)
        if found is None:
            names = ", ".join(BUILT_IN_TOOLS)
            return [
                f"{tool.name!r} is not a built-in tool{did_you_mean(tool.name, BUILT_IN_TOOLS)}: "
                f"expected one of {names}"
            ]
        if getattr(tool, "parameters", None):
            return ["a built-in tool has parameters of its own: leave out `parameters`"]
        return found.problems(tool)

    async def offer(self, tool: Tool, asking: Asking) -> Sequence[Offering]:
        offering = BUILT_IN_TOOLS[tool.name].offering
        return [replace(offering, description=tool.description or offering.description)]

    async def execute(self, call: KindCall) -> Any:
        return await BUILT_IN_TOOLS[call.tool.name].execute(call)


class ProviderTools(ToolKind):
    """The `options` of a declaration go to the provider with each model call; the provider executes
    the tool.
    """

    def problems(self, tool: Tool) -> Sequence[str]:
        unused = [
            name for name in ("parameters", "bindings", "perdure") if getattr(tool, name, None)
        ]
        if unused:
            return [
                f"a provider's tool has no {', '.join(unused)}: settings for the provider go under "
                "`options`"
            ]
        return []

    async def offer(self, tool: Tool, asking: Asking) -> Sequence[Offering]:
        return []

    async def execute(self, call: KindCall) -> Any:
        raise NotImplementedError("the provider executes it")
