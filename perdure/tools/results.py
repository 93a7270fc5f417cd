"""Turns what a tool function returns into a tool result of bounded size (§6.1)."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from ..messages import AudioPart, FilePart, ImagePart, Part, TextPart, ToolResult

_PARTS = (TextPart, ImagePart, AudioPart, FilePart)
_JSON = (BaseModel, dict, list, tuple, set, frozenset)


@dataclass(frozen=True)
class SizeLimits:
    """How large one tool result may be, so that it fits into a Temporal payload (2 MB) and a model's context."""

    text_bytes: int = 64 * 1024
    """Bytes of all text together, in UTF-8."""
    media_bytes: int = 1024 * 1024
    """Bytes of all images, audio and files together, as they are sent (base64)."""


def to_result(value: Any, limits: SizeLimits) -> ToolResult:
    """The result for a returned value: strings and message parts as they are, structures as JSON, bytes as a file.

    A ToolResult stays one, within the limits. Raises ValueError for a structure that JSON can't hold.
    """
    if isinstance(value, str):
        return ToolResult.of_text(cut_middle(value, limits.text_bytes))
    if isinstance(value, ToolResult):
        message = None if value.error_message is None else cut_middle(value.error_message, limits.text_bytes)
        return value.model_copy(update={"parts": _bounded(value.parts, limits), "error_message": message})
    return ToolResult(parts=_bounded(_parts(value), limits))


def _parts(value: Any) -> list[Part]:
    if isinstance(value, _PARTS):
        return [value]
    if isinstance(value, list | tuple) and value and all(isinstance(item, _PARTS) for item in value):
        return list(value)
    if isinstance(value, bytes | bytearray | memoryview):
        encoded = base64.b64encode(value).decode()
        return [FilePart.model_validate({"source": encoded, "mediaType": "application/octet-stream"})]
    return [TextPart(value=_text(value))]


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, _JSON) or (is_dataclass(value) and not isinstance(value, type)):
        plain = to_jsonable_python(value, bytes_mode="base64", fallback=str)
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    return str(value)


def _bounded(parts: Sequence[Part], limits: SizeLimits) -> list[Part]:
    left = {"text": limits.text_bytes, "media": limits.media_bytes}
    kept: list[Part] = []
    omitted: list[int] = []
    for part in parts:
        pool, size = ("text", len(_encoded(part.value))) if isinstance(part, TextPart) else ("media", len(part.source))
        if isinstance(part, TextPart) and (size <= left[pool] or left[pool] > 0):
            text = cut_middle(part.value, left[pool])
            kept.append(part if text == part.value else TextPart(value=text))
        elif size <= left[pool]:
            kept.append(part)
        else:
            omitted.append(size)
        left[pool] = max(0, left[pool] - size)
    if omitted:
        notice = f"[… {len(omitted)} more parts of {sum(omitted):,} bytes left out: over the limit for a tool result …]"
        kept.append(TextPart(value=notice))
    return kept


def cut_middle(text: str, limit: int) -> str:
    """The text in at most `limit` bytes of UTF-8; a notice, which comes in addition, replaces what is cut out.

    Three quarters of what stays are the beginning of the text, one quarter is its end.
    """
    if len(text) <= limit and text.isascii():
        return text
    encoded = _encoded(text)
    if len(encoded) <= limit:
        return encoded.decode()
    head, tail = limit * 3 // 4, limit - limit * 3 // 4
    start = encoded[:head].decode(errors="ignore")
    end = encoded[len(encoded) - tail :].decode(errors="ignore")
    return f"{start}\n[… {len(encoded) - limit:,} of {len(encoded):,} bytes left out here …]\n{end}"


def _encoded(text: str) -> bytes:
    """The text in UTF-8, with a question mark for half of a surrogate pair, which UTF-8 can't encode."""
    return text.encode("utf-8", errors="replace")
