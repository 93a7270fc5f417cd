"""Reads the body of a server's error: JSON of any shape, JSON inside a text, plain text, a page."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..json_types import JsonView
from ..text import one_line

_LEVELS = 8
"""The depth of the usual shapes, with JSON inside a text as one more level."""
_MOST = 50
"""The most items of a list that are read."""
_MOST_CHARS = 64 * 1024
"""The most characters of a text that are searched for JSON, or of a page."""
_MOST_VALUES = 2_000
"""The most values of a body that are read."""
_MOST_JSON_CHARS = 2 * _MOST_CHARS
"""The most characters of all texts that may contain JSON."""
_TEXT_KEYS = (
    "message",
    "Message",
    "detail",
    "error_description",
    "errorMessage",
    "msg",
    "error",
    "errors",
    "title",
)
_INNER_KEYS = ("error", "errors", "message", "detail", "details", "innererror", "metadata", "raw")
_CODE_KEYS = ("code", "type", "status", "reason", "__type", "error_type")
WAIT_KEYS = ("retryDelay", "retry_after", "retry_after_seconds")
_READ_KEYS = tuple(dict.fromkeys((*_TEXT_KEYS, *_INNER_KEYS)))
_JSON = json.JSONDecoder()
_JSON_BEGINS = re.compile(r"""\{\s*"|\[\s*\{""")
_MARKUP = re.compile(r"\s*<(?:!doctype|html|head|body|\?xml|error)\b", re.IGNORECASE)
_HEADLINE = re.compile(r"<(title|message|h1)\b[^<>]{0,200}>([^<>]{1,500})</\1", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")


class ErrorBody(NamedTuple):
    """The readable content of a body, or of a part of it."""

    message: str = ""
    """"" without a message."""
    layers: Sequence[JsonView] = ()
    """The objects that may describe the error, each before those within it."""

    @property
    def codes(self) -> list[str]:
        """The codes and types in lower case, the most specific first."""
        found = [layer.get(key) for layer in reversed(self.layers) for key in _CODE_KEYS]
        return [
            str(code).rpartition("#")[2].lower()
            for code in found
            if code and isinstance(code, str | int)
        ]


def read_body(body: Any) -> ErrorBody:
    """Read as much of the body as takes little time. Never raises."""
    return _Reader().read(body, _LEVELS)


class _Reader:
    """Counts the values of one body that are read."""

    def __init__(self) -> None:
        self._values = _MOST_VALUES
        self._json_chars = _MOST_JSON_CHARS

    def read(self, value: Any, levels: int) -> ErrorBody:
        self._values -= 1
        if self._values < 0:
            return ErrorBody()
        if isinstance(value, str):
            return self._text(value, levels)
        if levels and isinstance(value, list):
            read = [self.read(each, levels - 1) for each in value[:_MOST]]
            said = dict.fromkeys(each.message for each in read if each.message)
            return ErrorBody("; ".join(said), [layer for each in read for layer in each.layers])
        return self._object(value, levels - 1) if levels and isinstance(value, Mapping) else _NONE

    def _text(self, text: str, levels: int) -> ErrorBody:
        """Read the JSON in a text, between the text before and after it, or a page's headline."""
        parts = _parts(text) if levels else []
        if len(parts) > 1:
            self._json_chars -= len(text)
            if self._json_chars < 0:
                return _NONE
        read = [self.read(each, levels - 1) for each in parts]
        said = [each.message for each in read]
        # Without a message in the JSON, the text itself is one.
        is_read = any(said[-2:-1] or said)
        layers = [layer for each in read for layer in each.layers]
        return ErrorBody(" ".join(filter(None, said)) if is_read else text.strip(), layers)

    def _object(self, value: JsonView, levels: int) -> ErrorBody:
        """Read an object: a nested object's or list's message before a plain word, and the text
        that it quotes.
        """
        read = {key: self.read(value[key], levels) for key in _READ_KEYS if value.get(key)}
        said = sorted(
            (key for key in _TEXT_KEYS if key in read), key=lambda key: _is_word(value[key])
        )
        text = next((read[key].message for key in said if read[key].message), "")
        place = value.get("loc")
        if text and place and isinstance(place, list):  # The validation errors of FastAPI servers.
            text = f"{'.'.join(map(str, place[:_MOST]))}: {text}"
        quoted = value.get("metadata")
        raw = quoted.get("raw") if isinstance(quoted, Mapping) else None
        more = self.read(raw, levels).message if raw else ""
        inner = [layer for key in _INNER_KEYS if key in read for layer in read[key].layers]
        return ErrorBody(
            ": ".join(filter(None, [text, "" if more in text else more])), [value, *inner]
        )


_NONE = ErrorBody()


def _is_word(value: Any) -> bool:
    return isinstance(value, str)


def _parts(text: str) -> list[Any]:
    """Return a text's JSON between the text before and after it, or a page's headline; [] for a
    plain text.
    """
    if _MARKUP.match(text[:_MOST_CHARS]):
        text = text[:_MOST_CHARS]
        headline = _HEADLINE.search(text)
        return [
            one_line(html.unescape(headline[2] if headline else _TAG.sub(" ", text)), 500)
            or "an empty page"
        ]
    begins = _JSON_BEGINS.search(text) if len(text) <= _MOST_CHARS else None
    if begins is None:
        return []
    try:
        value, end = _JSON.raw_decode(text, begins.start())
    except (ValueError, RecursionError):
        return []
    return [text[: begins.start()], value, text[end:].strip(" \n'\"")]
