"""Writes requests as JSON bytes; what a conversation has already been sent with is not encoded again.

Encoding 400 messages of 1 KB costs about as much as sending them, and an agent sends all of them at every
iteration. Comparing them with what was sent before costs a thirtieth of that, and is safe whoever changes them;
where nobody does (`Memoized`), it is enough that they are the same objects.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from itertools import chain, islice
from operator import eq, is_
from threading import Lock
from typing import Any, NamedTuple

from pydantic_core import to_json

from .memo import Memoized, common_start

REMEMBERED_BYTES = 32 * 2**20
LONG = 16
"""A list of fewer items is encoded anew each time."""
_KEY_ITEMS = 2


class _Encoded(NamedTuple):
    items: list[Any]
    """Which nobody else can change: copies, unless they are lasting ones."""
    texts: list[bytes]
    """One for each item, behind a comma."""
    size: int
    """Bytes of all texts."""
    inexact: list[int]
    """Where the items with numbers or truth values are: Python takes 1, 1.0 and True for equal."""


class BodyEncoder:
    """Encodes request bodies. Threads may share it."""

    def __init__(self, remembered_bytes: int = REMEMBERED_BYTES) -> None:
        self._limit = remembered_bytes
        self._size = 0
        self._known: OrderedDict[bytes, _Encoded] = OrderedDict()
        self._lock = Lock()

    def encode(self, body: Mapping[str, Any]) -> bytes:
        """The body in UTF-8 without blanks; ValueError or TypeError when it holds what JSON can't say.

        Half a surrogate pair, which UTF-8 can't say, becomes `?`.
        """
        pieces = [b"{"]
        try:
            for key, value in body.items():
                pieces += (b"," if len(pieces) > 1 else b"", _json(key), b":")
                pieces += self._value(value)
        except ValueError:
            text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
            return text.encode("utf-8", "replace")
        return b"".join((*pieces, b"}"))

    def _value(self, value: Any) -> Iterable[bytes]:
        """Pieces, to be joined once: every further copy of a large body costs a page fault per 4 KB."""
        if not isinstance(value, list) or len(value) < LONG:
            return (_json(value),)
        key = _json(value[:_KEY_ITEMS])
        encoded = _continued(self._take(key), value)
        self._keep(key, encoded)
        return chain((b"[", encoded.texts[0][1:]), islice(encoded.texts, 1, None), (b"]",))

    def _take(self, key: bytes) -> _Encoded:
        """What is known of the list that begins so; the caller owns it until it gives it back."""
        with self._lock:
            known = self._known.pop(key, None) or _Encoded([], [], 0, [])
            self._size -= known.size
            return known

    def _keep(self, key: bytes, encoded: _Encoded) -> None:
        with self._lock:
            self._known[key] = encoded
            self._size += encoded.size
            while self._size > self._limit:
                _, dropped = self._known.popitem(last=False)
                self._size -= dropped.size


def _continued(known: _Encoded, items: list[Any]) -> _Encoded:
    """The items encoded, taking over those at the start that are equal to the known ones."""
    is_lasting = isinstance(items, Memoized)
    same = common_start(known.items, items, is_ if is_lasting else eq)
    new = items[same:]
    texts = known.texts[:same]
    inexact = [index for index in known.inexact if index < same]
    if not is_lasting:
        for index in inexact:
            texts[index] = b"," + _json(items[index])
    inexact += [same + index for index, item in enumerate(new) if _has_inexact(item)]
    texts += [b"," + _json(item) for item in new]
    return _Encoded(known.items[:same] + (new if is_lasting else _copy(new)), texts, sum(map(len, texts)), inexact)


def _copy(value: Any) -> Any:
    """A copy that shares only strings and numbers."""
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


def _has_inexact(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_inexact, value.values()))
    return any(map(_has_inexact, value)) if isinstance(value, list) else isinstance(value, int | float)


def _json(value: Any) -> bytes:
    return to_json(value, inf_nan_mode="null")
