"""The tool of the benchmarks: gives 1 KB of text, another one for each call."""

from __future__ import annotations

from perdure import tool

from .texts import text_of


@tool
async def look_up(round: int, part: int) -> str:
    """Look a part up."""
    return text_of(round, part)


PUBLISHED_CHARS = 8360
"""2,090 tokens: after 100 calls, the model has read 209,000 of them in one conversation."""


@tool(name="look_up")
async def look_much_up(round: int, part: int) -> str:
    """Look a part up."""
    return text_of(round, part, PUBLISHED_CHARS)


@tool(name="look_up")
def look_up_in_thread(round: int, part: int) -> str:
    """Look a part up."""
    return text_of(round, part)
