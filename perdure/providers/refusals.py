"""The parts of a request that a server refuses: the request is sent again without them, and they
are remembered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import ModelError
from ..json_types import JsonObject
from .base import rename_keys
from .error_words import pattern, table

MARKS = "prompt cache"
"""Stands for the additions for the prompt cache."""
_REFUSING = frozenset({400, 404, 422})
_TOOL = re.compile(r"tools[\[.](\d+)|(?:function|tool) ['\"`]([^'\"`]+)['\"`]")
_ABOUT_TOOLS = re.compile(r"schema|parameters|\bname\b", re.IGNORECASE)


def refused_part(error: ModelError, sent: JsonObject, *, is_marked: bool) -> str | None:
    """Return the part of a request that the error refuses and that can be left out; None for
    nothing.
    """
    if error.status not in _REFUSING:
        return None
    text = error.message
    if (tool := _tool_named(text, sent)) is not None:
        return f"tool:{tool}"
    known = table()["left_out"]
    if pattern(*known["words"]).search(text):
        options = (
            key for key in known["options"] if key in sent and re.search(rf"\b{key}\b", text)
        )
        option: str | None = next(options, None)
        if option and known["renamed"].get(option, "") in text:
            return option
        private: str | None = next(
            (key for key in known["fields"] if key in text and _has_private(sent, key)), None
        )
        if private and "missing" not in text and "must be passed" not in text:
            return private
    return MARKS if is_marked and pattern(*known["marks"]).search(text) else None


def without(request: JsonObject, refused: Iterable[str]) -> JsonObject:
    """Return the request without the refused parts; the same object if there are none."""
    known = table()["left_out"]
    for part in refused:
        word, _, value = part.partition(":")
        if word == "tool":
            kept = [tool for tool in request.get("tools") or () if tool_name(tool) != value]
            request = {**request, "tools": kept} if "tools" in request else request
        elif part in known["fields"]:
            request = {
                **request,
                "messages": [_without_field(message, part) for message in request["messages"]],
            }
        elif part in request:
            request = rename_keys(request, {part: known["renamed"].get(part, "")})
    return request


def tool_name(tool: Any) -> str:
    """Return the name of a tool in any wire format; "" for one that has none."""
    named = tool.get("function", tool) if isinstance(tool, Mapping) else {}
    return str(named.get("name", ""))


def _tool_named(text: str, sent: JsonObject) -> str | None:
    """Return the tool whose schema or name is refused; None if no other tool could work."""
    tools = sent.get("tools") or []
    match = _TOOL.search(text) if _ABOUT_TOOLS.search(text) and len(tools) > 1 else None
    if match is None:
        return None
    if match[1]:
        return tool_name(tools[int(match[1])]) or None if int(match[1]) < len(tools) else None
    return match[2] if match[2] in map(tool_name, tools) else None


def _has_private(sent: JsonObject, key: str) -> bool:
    return any(
        _without_field(message, key) is not message for message in sent.get("messages") or ()
    )


def _without_field(message: JsonObject, key: str) -> JsonObject:
    calls = message.get("tool_calls")
    if key not in message and not any(key in call for call in calls or ()):
        return message
    kept = {name: value for name, value in message.items() if name != key}
    if calls:
        kept["tool_calls"] = [
            {name: value for name, value in call.items() if name != key} for call in calls
        ]
    return kept
