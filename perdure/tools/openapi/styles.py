"""How values of parameters are written: the styles of OpenAPI (https://spec.openapis.org/oas/v3.1.1#style-values).

A value is what JSON has. Null, alone or in an object, is as if it were absent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

Pair = tuple[str, str]
Quote = Callable[[str], str]

_RESERVED = ":/?@!$'()*,;"
"""What `allowReserved` leaves as it is: not what ends a value (`&`, `#`) or is read otherwise in a query (`+`, `=`)."""
_BETWEEN = {"spaceDelimited": "%20", "pipeDelimited": "%7C"}


def quoted(text: str) -> str:
    """The text with every character but letters, digits and `-._~` as %XX of UTF-8."""
    return quote(text, safe="")


def quoted_but_reserved(text: str) -> str:
    """The same, except that most characters that mean something in a URL stay."""
    return quote(text, safe=_RESERVED)


def text_of(value: Any) -> str:
    """A value as text: a string as it is, true and false, numbers and structures as in JSON, null as nothing."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def simple(value: Any, *, explode: bool, quote: Quote = quoted) -> str:
    """In a path or a header: `blue,black`, `R,100,G,200`, and exploded `R=100,G=200`."""
    return ",".join(_items(value, explode=explode, quote=quote))


def label(value: Any, *, explode: bool) -> str:
    """In a path: `.blue,black`, and exploded `.blue.black`, `.R=100.G=200`."""
    return "." + ("." if explode else ",").join(_items(value, explode=explode, quote=quoted))


def matrix(name: str, value: Any, *, explode: bool) -> str:
    """In a path: `;color=blue,black`, and exploded `;color=blue;color=black`, `;R=100;G=200`."""
    name = quoted(name)
    if isinstance(value, dict) and explode:
        return "".join(f";{item}" for item in _items(value, explode=True, quote=quoted))
    if isinstance(value, list) and explode:
        return "".join(f";{name}={item}" for item in _items(value, explode=True, quote=quoted))
    text = simple(value, explode=False)
    return f";{name}={text}" if text else f";{name}"


def query_pairs(name: str, value: Any, *, style: str, explode: bool, quote: Quote = quoted) -> list[Pair]:
    """Names and values in a query, quoted, for the styles form, spaceDelimited, pipeDelimited and deepObject."""
    if style == "deepObject" and isinstance(value, dict | list):
        return list(_deep(quoted(name), value, quote))
    if isinstance(value, dict) and explode:
        return [(quoted(key), quote(text_of(each))) for key, each in value.items() if each is not None]
    if isinstance(value, list) and explode:
        return [(quoted(name), quote(text_of(each))) for each in value]
    between = _BETWEEN.get(style, ",")
    return [(quoted(name), between.join(_items(value, explode=False, quote=quote)))]


def _items(value: Any, *, explode: bool, quote: Quote) -> list[str]:
    if isinstance(value, dict):
        pairs = [(quote(key), quote(text_of(each))) for key, each in value.items() if each is not None]
        return [f"{key}={text}" for key, text in pairs] if explode else [part for pair in pairs for part in pair]
    if isinstance(value, list):
        return [quote(text_of(each)) for each in value]
    return [quote(text_of(value))]


def _deep(name: str, value: Any, quote: Quote) -> Iterator[Pair]:
    """`filter[a]=1&filter[b][c]=2`; the items of a list repeat its name."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _deep(f"{name}%5B{quoted(key)}%5D", each, quote)
    elif isinstance(value, list):
        for each in value:
            yield from _deep(name, each, quote)
    elif value is not None:
        yield name, quote(text_of(value))
