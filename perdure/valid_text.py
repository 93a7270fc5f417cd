"""Makes text from outside valid and bounds it: half of a surrogate pair is no character, and no JSON may hold it."""

from __future__ import annotations

import re
from typing import Any

MAX_TEXT_BYTES = 8 * 1024
"""For what a stranger's text may add to a failure."""

_HALF = re.compile("[\ud800-\udfff]")
_LONGEST_WORD = 1024
_LAST_WORD = re.compile(r"\S+\Z")


def valid_text(text: str) -> str:
    """The text with halves of a surrogate pair that belong together joined, and any other one as U+FFFD."""
    if text.isascii() or not _HALF.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def valid_json(value: Any) -> Any:
    """A copy of the JSON value in which all text is valid, keys included; a tuple becomes a list, as it would in JSON.

    Raises RecursionError for a value that is nested hundreds of levels deep.
    """
    if isinstance(value, str):
        return valid_text(value)
    if isinstance(value, dict):
        return {valid_json(key): valid_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [valid_json(item) for item in value]
    return value


def bounded_text(text: str, limit: int = MAX_TEXT_BYTES) -> str:
    """The text, valid; of a longer one so much of the beginning that it takes at most `limit` bytes with a notice.

    The word at the cut goes too: half of a secret is one that no redaction finds.
    """
    if len(text) * 4 <= limit:
        return valid_text(text)
    encoded = valid_text(text).encode()
    if len(encoded) <= limit:
        return encoded.decode()
    notice = f" [… cut: {len(encoded):,} bytes]"
    head = encoded[: max(0, limit - len(notice.encode()))].decode(errors="ignore")
    return (head[:-_LONGEST_WORD] + _LAST_WORD.sub("", head[-_LONGEST_WORD:])).rstrip() + notice


class TextPieces:
    """Makes the pieces of one text valid, where a character may be cut in two between pieces."""

    def __init__(self) -> None:
        self._half = ""

    def add(self, piece: str) -> str:
        """The piece; without a half at its end, which comes with the next piece."""
        text = self._half + piece
        self._half = text[-1] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return valid_text(text[:-1] if self._half else text)
