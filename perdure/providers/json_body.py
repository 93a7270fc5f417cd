"""Writes a request as JSON bytes, several times faster than the standard library on long conversations."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic_core import to_json

CHUNK = 32
"""Messages encoded at a time: one buffer that outgrows the allocator's arenas doubles the time."""


def json_body(body: Mapping[str, Any]) -> bytes:
    """The body in UTF-8 without blanks; ValueError or TypeError when it holds what JSON can't say.

    Half a surrogate pair, which UTF-8 can't say, becomes `?`.
    """
    try:
        return b"{" + b",".join(to_json(key) + b":" + _value(value) for key, value in body.items()) + b"}"
    except ValueError:
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return text.encode("utf-8", "replace")


def _value(value: Any) -> bytes:
    if not isinstance(value, list) or len(value) <= CHUNK:
        return to_json(value, inf_nan_mode="null")
    chunks = (to_json(value[start : start + CHUNK], inf_nan_mode="null") for start in range(0, len(value), CHUNK))
    return b"[" + b",".join(chunk[1:-1] for chunk in chunks) + b"]"
