"""Text as inert Markdown, for the Temporal UI."""

from __future__ import annotations

import re

from ..text import excerpt, one_line, utf8, visible

_SAFE = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.!~*'()"
_NOT_IN_CODE = str.maketrans({"`": "ˋ", "|": "¦"})
"""A backtick would end the code, and a bar the table's cell: no escape for them works in all
renderers."""
_INERT = re.compile(r"[<>`]|(?<=\])(?=[(\[:])|(?<=:)(?=//)|(?<=www)(?=\.)", re.IGNORECASE)
_INSTEAD = {"<": "‹", ">": "›", "`": "ˋ"}
_JOINER = "\u2060"


def code(text: str, limit: int = 100) -> str:
    """Text as code on one line, also within a table; at most `limit` characters, fewer of those
    that a URL encodes.
    """
    shown = visible(one_line(text[: 10 * limit], limit)).translate(_NOT_IN_CODE)
    while url_chars(shown) > 3 * limit:
        shown = excerpt(shown, len(shown) * 2 // 3)
    return f"`{shown}`" if shown else ""


def inert(text: str) -> str:
    """The text in a form in which Markdown finds no HTML, no image and no link."""
    return _INERT.sub(lambda match: _INSTEAD.get(match[0], _JOINER), visible(text))


def url_chars(text: str) -> int:
    """Return the length of the text in the query of a URL."""
    encoded = utf8(text)
    return len(encoded) + 2 * len(encoded.translate(None, _SAFE))
