"""Guesses which known word a misspelt one means."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint to append to a message, with the known word that is most like `word`; "" when none is."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.7)
    return f" (did you mean {near[0]!r}?)" if near else ""
