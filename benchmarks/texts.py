"""Texts of any length, as the tools of the benchmarks give them; without perdure, for programs in
another environment.
"""

from __future__ import annotations

import hashlib

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
