"""Writes the body of a request in its media type."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from .operation import Body, FormField
from .styles import query_pairs, quoted, quoted_but_reserved, text_of

_BASE64 = "'{}' must be a file as base64, got {!r:.60}"
File = tuple[str | None, bytes, str | None]
"""A part of a form with its file's name and media type; without a name, a plain value."""


class Unfit(ValueError):
    """An argument can't be sent; the text tells the model why."""


class Content(NamedTuple):
    """A body: its bytes with their media type, or the parts of a form."""

    data: bytes | None = None
    media: str | None = None
    parts: list[tuple[str, File]] | None = None


def content_of(body: Body, arguments: Mapping[str, Any]) -> Content:
    """The body that the arguments make; none where an optional one has no arguments. Raises Unfit."""
    value: Any
    if body.argument is None:
        value = {name: arguments[name] for name in body.properties if name in arguments}
        if not value and not _is_json(body.media):
            return Content()
    elif body.argument in arguments:
        value = arguments[body.argument]
    else:
        return Content()
    if _is_json(body.media):
        return Content(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(), body.media)
    if body.media == "application/x-www-form-urlencoded" and isinstance(value, dict):
        return Content("&".join(_urlencoded(value, body.fields)).encode(), body.media)
    if body.media == "multipart/form-data" and isinstance(value, dict):
        return Content(parts=list(_parts(value, body.fields)))
    data = _decoded(value, body.argument or "body") if body.is_binary else text_of(value).encode()
    return Content(data, body.media)


def _is_json(media: str) -> bool:
    return "json" in media


def _urlencoded(value: Mapping[str, Any], fields: Mapping[str, FormField]) -> Iterator[str]:
    """A list repeats its name, and a structure is JSON, unless the specification gives the property a style."""
    for name, each in value.items():
        field = fields.get(name, FormField())
        if field.style:
            quote = quoted_but_reserved if field.reserved else quoted
            pairs = query_pairs(name, each, style=field.style, explode=field.explode, quote=quote)
            yield from (f"{key}={text}" for key, text in pairs)
        else:
            items = each if isinstance(each, list) else [each]
            yield from (urlencode({name: text_of(item)}) for item in items if item is not None)


def _parts(value: Mapping[str, Any], fields: Mapping[str, FormField]) -> Iterator[tuple[str, File]]:
    for name, each in value.items():
        field = fields.get(name, FormField())
        for item in each if isinstance(each, list) else [each]:
            if field.is_file:
                yield name, (name, _decoded(item, name), field.media or "application/octet-stream")
            elif item is not None:
                media = field.media or ("application/json" if isinstance(item, dict | list) else None)
                yield name, (None, text_of(item).encode(), media)


def _decoded(value: Any, argument: str) -> bytes:
    if not isinstance(value, str):
        raise Unfit(_BASE64.format(argument, value))
    text = value.partition(";base64,")[2] if value.startswith("data:") else value
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise Unfit(_BASE64.format(argument, value)) from None
