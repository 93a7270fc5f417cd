"""Shortens texts for the people who look at a run."""

from __future__ import annotations


def excerpt(text: str, limit: int) -> str:
    """The text, or its first characters and `…`; at most `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def one_line(text: str, limit: int = 100) -> str:
    """The text on one line, every run of white space as one blank; at most `limit` characters."""
    return excerpt(" ".join(text.split()), limit)
