"""Makes the HTTP request of one call, so that no argument leads it anywhere else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

from .bodies import Content, Unfit, content_of
from .operation import Operation, Parameter
from .security import Credentials
from .servers import origin_of
from .styles import label, matrix, query_pairs, quoted, quoted_but_reserved, simple, text_of

MAX_URL = 16 * 1024
"""Characters; few servers take more."""
_IN_HEADERS = "".join(chr(code) for code in range(33, 127) if chr(code) != "%")
"""What a header's value may have as it is."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True)
class HttpRequest:
    """What is sent."""

    method: str
    url: str
    headers: list[tuple[str, bytes]] = field(repr=False)
    content: Content


def request_of(
    operation: Operation, base: str, arguments: Mapping[str, Any], credentials: Credentials, idempotency_key: str
) -> HttpRequest:
    """The request of a call to the server at `base`. Raises Unfit for an argument that can't be sent."""
    given = [(each, arguments[each.argument]) for each in operation.parameters if _is_given(each, arguments)]
    url = base + _path(operation, {each.name: (each, value) for each, value in given if each.place == "path"})
    pairs = [pair for each, value in given if each.place == "query" for pair in _query(each, value)]
    pairs += [(quoted(name), quoted(value)) for name, value in credentials.query]
    if pairs:
        url += "?" + "&".join(f"{name}={text}" for name, text in pairs)
    if len(url) > MAX_URL:
        raise Unfit(f"they make a URL of {len(url):,} characters: at most {MAX_URL:,} can be sent")
    if origin_of(url) != origin_of(base):
        raise Unfit("they lead to another server")
    headers = [("Accept", operation.accept.encode()), *_headers(given)]
    if cookies := [*_cookies(given), *(f"{name}={value}" for name, value in credentials.cookies)]:
        headers.append(("Cookie", "; ".join(cookies).encode()))
    if operation.key_header and idempotency_key:
        headers.append((operation.key_header, quote(idempotency_key, safe=_IN_HEADERS).encode()))
    headers += [(name, value.encode()) for name, value in credentials.headers]
    content = content_of(operation.body, arguments) if operation.body else Content()
    if content.media:
        headers.append(("Content-Type", content.media.encode()))
    return HttpRequest(operation.method, url, headers, content)


def _is_given(parameter: Parameter, arguments: Mapping[str, Any]) -> bool:
    return arguments.get(parameter.argument) is not None or parameter.place == "path"


def _path(operation: Operation, values: Mapping[str, tuple[Parameter, Any]]) -> str:
    def filled(match: re.Match[str]) -> str:
        parameter, value = values[match[1]]
        return _path_value(parameter, value)

    # The whole of each part: `{a}{b}` with two dots is one that leads upwards, too.
    path = re.sub(r"\{([^{}]*)\}", filled, operation.path)
    for part in re.split(r"[/\\]", unquote(path)):
        if part.partition(";")[0] in (".", ".."):  # Some servers take `..;x` for `..`.
            raise Unfit(f"they make the path {path!r:.200}: a part of it must not be '.' or '..'")
    return quote_template(path)


def quote_template(path: str) -> str:
    """The path with what a URL can't have as %XX; what is quoted already stays."""
    return re.sub(r"[^!-~]|[\"<>^`{|}]", lambda match: quoted(match[0]), path)


def _path_value(parameter: Parameter, value: Any) -> str:
    if value is None or value == "" or value == [] or value == {}:
        raise Unfit(f"'{parameter.argument}' is a part of the path and must not be empty")
    if parameter.media is not None:
        return quoted(text_of(value))
    if parameter.style == "label":
        return label(value, explode=parameter.explode)
    if parameter.style == "matrix":
        return matrix(parameter.name, value, explode=parameter.explode)
    return simple(value, explode=parameter.explode)


def _query(parameter: Parameter, value: Any) -> list[tuple[str, str]]:
    quote = quoted_but_reserved if parameter.reserved else quoted
    if parameter.media is not None:
        return [(quoted(parameter.name), quote(_in_media(parameter, value)))]
    return query_pairs(parameter.name, value, style=parameter.style, explode=parameter.explode, quote=quote)


def _headers(given: list[tuple[Parameter, Any]]) -> Iterator[tuple[str, bytes]]:
    for parameter, value in given:
        if parameter.place != "header":
            continue
        in_media = parameter.media is not None
        text = _in_media(parameter, value) if in_media else simple(value, explode=parameter.explode, quote=str)
        if _CONTROL.search(text):
            raise Unfit(f"'{parameter.argument}' is a header and must not have line ends or other control characters")
        yield parameter.name, text.strip().encode()


def _cookies(given: list[tuple[Parameter, Any]]) -> Iterator[str]:
    for parameter, value in given:
        if parameter.place == "cookie" and parameter.media is not None:
            yield f"{parameter.name}={quoted(_in_media(parameter, value))}"
        elif parameter.place == "cookie":
            for name, text in query_pairs(parameter.name, value, style="form", explode=parameter.explode):
                yield f"{name}={text}"


def _in_media(parameter: Parameter, value: Any) -> str:
    """JSON, where that is the media type: a string in quotation marks, too."""
    if parameter.media and "json" in parameter.media:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text_of(value)
