"""Shortens texts for the people who look at a run, and takes from them what would act on a terminal."""

from __future__ import annotations

import re
from collections.abc import Callable

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters except tab and line feed, and those that reorder what is shown."""


Note = Callable[[int, int, int], str]
"""What stands in the place of what is left out, given its first character, its bytes, and those of the whole."""


def excerpt(text: str, limit: int) -> str:
    """The text, or its first characters and `…`; at most `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def one_line(text: str, limit: int = 100) -> str:
    """The text on one line, every run of white space as one blank; at most `limit` characters."""
    return excerpt(" ".join(text.split()), limit)


def visible(text: str) -> str:
    """The text with control characters escaped as Python writes them, so that a terminal shows them; lines stay."""
    return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


def visible_json(text: str) -> str:
    """JSON text with what would act on a terminal escaped as JSON does; the value is the same."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def counted(number: float, noun: str) -> str:
    """The number with its noun, such as `1 day` and `1.5 days`."""
    return f"{number:g} {noun}" if number == 1 else f"{number:,.10g} {noun}s"


def left_out_here(start: int, missing: int, whole: int) -> str:
    """The note for those who can do nothing about it."""
    return f"[… {missing:,} of {whole:,} bytes left out here …]"


def cut_middle(text: str, limit: int, note: Note = left_out_here) -> str:
    """The text in at most `limit` bytes of UTF-8; a note, which comes in addition, replaces what is cut out.

    Three quarters of what stays are the beginning of the text, one quarter is its end.
    """
    if len(text) <= limit and text.isascii():
        return text
    encoded = utf8(text)
    if len(encoded) <= limit:
        return encoded.decode()
    head, tail = limit * 3 // 4, limit - limit * 3 // 4
    start = encoded[:head].decode(errors="ignore")
    end = encoded[len(encoded) - tail :].decode(errors="ignore")
    return f"{start}\n{note(len(start), len(encoded) - limit, len(encoded))}\n{end}"


def utf8(text: str) -> bytes:
    """The text in UTF-8, with a question mark for half of a surrogate pair, which UTF-8 can't encode."""
    return text.encode("utf-8", errors="replace")


def utf8_bytes(text: str) -> int:
    """How many bytes the text takes in UTF-8."""
    return len(text) if text.isascii() else len(utf8(text))
