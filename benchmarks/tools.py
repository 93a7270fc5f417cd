"""The tool of the benchmarks: gives 1 KB of text, another one for each call."""

from __future__ import annotations

import hashlib

from perdure import tool

SYLLABLES = [a + b for a in "bcdfg" for b in "aeio"]


def text_of(round: int, part: int, size: int = 1024) -> str:
    """`size` characters of words that look like words, always the same for the same arguments."""
    words: list[str] = []
    length = 0
    seed = f"{round}/{part}".encode()
    while length < size:
        seed = hashlib.blake2b(seed).digest()
        for first, second in zip(seed[::2], seed[1::2], strict=True):
            words.append(SYLLABLES[first % 20] + SYLLABLES[second % 20])
            length += len(words[-1]) + 1
    return " ".join(words)[:size]


@tool
async def look_up(round: int, part: int) -> str:
    """Look a part up."""
    return text_of(round, part)


@tool(name="look_up")
def look_up_in_thread(round: int, part: int) -> str:
    """Look a part up."""
    return text_of(round, part)
