"""Makes the HTTP request of one call: parameters in OpenAPI's styles and the body, confined to the
server's paths.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, get_args
from urllib.parse import quote, unquote, urlencode

from ...json_types import JsonView
from ..http import Content, HttpRequest, origin_of
from .operation import Body, Operation, Parameter, Place
from .security import RequestCredentials

Pair = tuple[str, str]
Quote = Callable[[str], str]


def quote_all(text: str) -> str:
    """Return the text with every character but letters, digits and `-._~` as %XX of UTF-8."""
    return quote(text, safe="")


def text_of(value: Any) -> str:
    """Return a value as text: a string unchanged, true and false, numbers and structures as in
    JSON, null as "".
    """
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def simple_text(value: Any, *, explode: bool, quote: Quote = quote_all) -> str:
    """Format a value for a path or a header: `blue,black`, `R,100,G,200`, and exploded
    `R=100,G=200`.
    """
    if isinstance(value, dict):
        pairs = [
            (quote(key), quote(text_of(each))) for key, each in value.items() if each is not None
        ]
        return ",".join(("=" if explode else ",").join(pair) for pair in pairs)
    items = value if isinstance(value, list) else [value]
    return ",".join(quote(text_of(each)) for each in items)


def query_pairs(name: str, value: Any, *, style: str, explode: bool) -> list[Pair]:
    """Return the quoted names and values in a query, for the styles form and deepObject."""
    named = quote_all(name)
    if style == "deepObject" and isinstance(value, dict | list):
        return list(_deep(named, value))
    if explode and isinstance(value, dict):
        given = {key: each for key, each in value.items() if each is not None}
        return [(quote_all(key), quote_all(text_of(each))) for key, each in given.items()]
    if explode and isinstance(value, list):
        return [(named, quote_all(text_of(each))) for each in value]
    return [(named, simple_text(value, explode=False))]


def _deep(name: str, value: Any) -> Iterator[Pair]:
    """Yield `filter[a]=1&filter[b][c]=2`; the items of a list repeat its name."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _deep(f"{name}%5B{quote_all(key)}%5D", each)
    elif isinstance(value, list):
        for each in value:
            yield from _deep(name, each)
    elif value is not None:
        yield name, quote_all(text_of(value))


class Unfit(ValueError):
    """An argument can't be sent; the text gives the model the reason."""


def content_of(body: Body, arguments: JsonView) -> Content:
    """Return the body made of the arguments; none for an optional body without arguments. Raises
    Unfit.
    """
    value: Any
    if body.argument is None:
        value = {name: arguments[name] for name in body.properties if name in arguments}
        if not value and "json" not in body.media:
            return Content()
    elif body.argument in arguments:
        value = arguments[body.argument]
    else:
        return Content()
    if "json" in body.media:
        return Content(_in_media(body.media, value).encode(), body.media)
    if isinstance(value, dict):
        return Content("&".join(_urlencoded_pairs(value, body.deep)).encode(), body.media)
    return Content(text_of(value).encode(), body.media)


def _urlencoded_pairs(value: JsonView, deep: Collection[str]) -> Iterator[str]:
    """Yield the pairs: a list repeats its name, and a structure is JSON, unless it is `deep`."""
    for name, each in value.items():
        if name in deep:
            yield from (f"{key}={text}" for key, text in _deep(quote_all(name), each))
            continue
        items = each if isinstance(each, list) else [each]
        yield from (urlencode({name: text_of(item)}) for item in items if item is not None)


ACCEPT = b"application/json, */*;q=0.5"
MAX_URL = 16 * 1024
"""Characters; few servers accept more."""
_IN_HEADERS = "".join(chr(code) for code in range(33, 127) if chr(code) != "%")
"""Characters that a header's value may contain unquoted."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def request_of(
    operation: Operation,
    base: str,
    arguments: JsonView,
    credentials: RequestCredentials,
    idempotency_key: str,
) -> HttpRequest:
    """Return the request of a call to the server at `base`. Raises Unfit for an argument that can't
    be sent.
    """
    given: dict[str, list[tuple[Parameter, Any]]] = {place: [] for place in get_args(Place)}
    for each in operation.parameters:
        if each.place == "path" or arguments.get(each.argument) is not None:
            given[each.place].append((each, arguments.get(each.argument)))
    url = base + _path(operation, {each.name: (each, value) for each, value in given["path"]})
    pairs = [pair for each, value in given["query"] for pair in _pairs(each, value)]
    pairs += [(quote_all(name), quote_all(value)) for name, value in credentials.query]
    if pairs:
        url += "?" + "&".join(f"{name}={text}" for name, text in pairs)
    if len(url) > MAX_URL:
        raise Unfit(f"they make a URL of {len(url):,} characters: at most {MAX_URL:,} can be sent")
    if origin_of(url) != origin_of(base):
        raise Unfit("they lead to another server")
    headers = [("Accept", ACCEPT), *_headers(given["header"])]
    if operation.key_header and idempotency_key:
        headers.append((operation.key_header, quote(idempotency_key, safe=_IN_HEADERS).encode()))
    headers += [(name, value.encode()) for name, value in credentials.headers]
    content = content_of(operation.body, arguments) if operation.body else Content()
    if content.media:
        headers.append(("Content-Type", content.media.encode()))
    return HttpRequest(operation.method, url, headers, content)


def _path(operation: Operation, values: Mapping[str, tuple[Parameter, Any]]) -> str:
    def fill_in(match: re.Match[str]) -> str:
        parameter, value = values[match[1]]
        return _path_value(parameter, value)

    # The whole of each part: `{a}{b}` with two dots also leads upwards.
    path = re.sub(r"\{([^{}]*)\}", fill_in, operation.path)
    for part in re.split(r"[/\\]", unquote(path)):
        if part.partition(";")[0] in (".", ".."):  # Some servers take `..;x` for `..`.
            raise Unfit(f"they make the path {path!r:.200}: a part of it must not be '.' or '..'")
    return quote_template(path)


def quote_template(path: str) -> str:
    """Return the path with characters invalid in a URL as %XX; quoted ones stay."""
    return re.sub(r"[^!-~]|[\"<>^`{|}]", lambda match: quote_all(match[0]), path)


def _path_value(parameter: Parameter, value: Any) -> str:
    if value is None or value == "" or value == [] or value == {}:
        raise Unfit(f"'{parameter.argument}' is a part of the path and must not be empty")
    if parameter.media is not None:
        return quote_all(text_of(value))
    return simple_text(value, explode=parameter.explode)


def _pairs(parameter: Parameter, value: Any) -> list[Pair]:
    """Return the pairs for a query."""
    if parameter.media is not None:
        return [(quote_all(parameter.name), quote_all(_in_media(parameter.media, value)))]
    return query_pairs(parameter.name, value, style=parameter.style, explode=parameter.explode)


def _headers(given: list[tuple[Parameter, Any]]) -> Iterator[tuple[str, bytes]]:
    for parameter, value in given:
        text = (
            simple_text(value, explode=parameter.explode, quote=str)
            if parameter.media is None
            else _in_media(parameter.media, value)
        )
        if _CONTROL.search(text):
            raise Unfit(
                f"'{parameter.argument}' is a header and must not have line ends or other control "
                "characters"
            )
        yield parameter.name, text.strip().encode()


def _in_media(media: str, value: Any) -> str:
    """Return the value as JSON, if that is the media type: a string in quotation marks, too."""
    if "json" in media:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text_of(value)
