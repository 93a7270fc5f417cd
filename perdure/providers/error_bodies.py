"""Reads the body of a server's error: JSON of any shape, JSON inside a text, plain text, a page."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

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
_READ_KEYS = tuple(dict.fromkeys((*_TEXT_KEYS, *_INNER_KEYS, *_CODE_KEYS, *WAIT_KEYS, "loc")))
_JSON = json.JSONDecoder()
_JSON_BEGINS = re.compile(r"""\{\s*"|\[\s*\{""")
_MARKUP = re.compile(r"\s*<(?:!doctype|html|head|body|\?xml|error)\b", re.IGNORECASE)
_HEADLINE = re.compile(r"<(title|message|h1)\b[^<>]{0,200}>([^<>]{1,500})</\1", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")


def readable_part(body: Any) -> Any:
    """Return a copy with the values that the other functions read, as many as take little time.
    Never raises.
    """
    return _Reading().part(body, _LEVELS)


class _Reading:
    """Counts the values of one body that are read."""

    def __init__(self) -> None:
        self._values = _MOST_VALUES
        self._json_chars = _MOST_JSON_CHARS

    def part(self, value: Any, levels: int) -> Any:
        self._values -= 1
        if self._values < 0:
            return None
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return [self.part(each, levels - 1) for each in value[:_MOST]] if levels else []
        if isinstance(value, Mapping):
            return self._object(value, levels - 1) if levels else {}
        return value

    def _text(self, text: str) -> str:
        """Return the text; "" for one too many that may contain JSON."""
        if len(text) <= _MOST_CHARS and _JSON_BEGINS.search(text):
            self._json_chars -= len(text)
            return text if self._json_chars >= 0 else ""
        return text

    def _object(self, value: JsonView, levels: int) -> JsonView:
        part = {key: self.part(value[key], levels) for key in _READ_KEYS if key in value}
        if isinstance(headers := value.get("headers"), Mapping):
            part["headers"] = dict(islice(headers.items(), _MOST))
        return part


def error_layers(body: Any, levels: int = _LEVELS) -> list[JsonView]:
    """Return the objects that may describe the error, innermost first. Never raises."""
    return list(_layers(body, levels))[::-1]


def _layers(value: Any, levels: int) -> Iterator[JsonView]:
    if isinstance(value, str):
        value = _parts(value)
    if levels and isinstance(value, list):
        for each in value[:_MOST]:
            yield from _layers(each, levels - 1)
    elif levels and isinstance(value, Mapping):
        yield value
        for key in _INNER_KEYS:
            yield from _layers(value.get(key), levels - 1)


def error_codes(layers: list[JsonView]) -> list[str]:
    """Return the codes and types in lower case, the most specific first."""
    found = [layer.get(key) for layer in layers for key in _CODE_KEYS]
    return [
        str(code).rpartition("#")[2].lower()
        for code in found
        if code and isinstance(code, str | int)
    ]


def error_message(body: Any, levels: int = _LEVELS) -> str:
    """Return the message of an error body; "" for one without a message. Never raises."""
    if isinstance(body, str):
        said = [error_message(each, levels - 1) for each in _parts(body)] if levels else []
        return " ".join(filter(None, said)) if any(said[-2:-1] or said) else body.strip()
    if levels and isinstance(body, list):
        return "; ".join(
            dict.fromkeys(filter(None, [error_message(each, levels - 1) for each in body[:_MOST]]))
        )
    if levels and isinstance(body, Mapping):
        return _object_message(body, levels - 1)
    return ""


def _object_message(body: JsonView, levels: int) -> str:
    """Return the object's message: that of a nested object or list before a plain word; and the
    text that it quotes.
    """
    said = [body[key] for key in _TEXT_KEYS if body.get(key)]
    said.sort(key=lambda each: isinstance(each, str))
    text = next(filter(None, (error_message(each, levels) for each in said)), "")
    place = body.get("loc")
    if text and place and isinstance(place, list):  # The validation errors of FastAPI servers.
        text = f"{'.'.join(map(str, place[:_MOST]))}: {text}"
    quoted = body.get("metadata")
    raw = error_message(quoted.get("raw"), levels) if isinstance(quoted, Mapping) else ""
    return ": ".join(filter(None, [text, "" if raw in text else raw]))


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
