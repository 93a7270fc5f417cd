"""What every wire format has to respect when it sends tool calls back: names, ids, arguments (§9.5).

The names and ids that APIs accept: https://platform.openai.com/docs/api-reference/chat/create (`tools`) and
https://docs.anthropic.com/en/api/messages (`tools`, `tool_use`).
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic_core import from_json

from ..arguments import parse_tool_arguments
from ..errors import ToolArgumentError
from ..messages import Message, Part, TextPart

_INVALID = re.compile(r"[^a-zA-Z0-9_-]")


class Call(NamedTuple):
    """A tool call of a message. Unlike a ToolCall, it is cheap to create for every message of a conversation."""

    id: str
    name: str
    arguments: str


def calls_of(message: Message) -> list[Call]:
    """The tool calls that an assistant message asks for; [] when there are none."""
    asked = message.metadata.get("tool_calls") or ()
    return [Call(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in asked]


@lru_cache(maxsize=1024)
def wire_name(name: str) -> str:
    """A tool name that every API accepts: a model may have asked for a tool under a name that none does."""
    return _INVALID.sub("_", name)[:64] or "_"


@lru_cache(maxsize=4096)
def wire_id(call_id: str) -> str:
    """A call id for APIs that accept only letters, digits, `_` and `-`; ids of other providers may have more."""
    return _INVALID.sub("_", call_id) or "_"


def call_id(given: Any, index: int, response_id: Any) -> str:
    """The id of a call; derived from its place when the server gave none, so that its result can be matched."""
    return given if given and isinstance(given, str) else f"call_{index}_{str(response_id or '')[-12:]}"


def compact_json(value: Any) -> str:
    """JSON without blanks, as a message keeps a tool call's arguments (§8). Raises TypeError like `json.dumps`."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def arguments_text(arguments: Any) -> str:
    """Arguments as JSON text; some servers send an object instead. Raises TypeError like `json.dumps`."""
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else compact_json(arguments)


def arguments_object(arguments: str) -> dict[str, Any]:
    """Arguments for an API that accepts only an object, with the same repairs as for the tool itself (§9.8).

    Text that is beyond repair is wrapped, so that the model sees what it wrote beside the error. Never raises.
    """
    try:
        value = from_json(arguments, allow_inf_nan=False)
    except ValueError:
        value = None
    if isinstance(value, dict):
        return value
    try:
        return parse_tool_arguments(arguments)
    except ToolArgumentError:
        return {"unparsed_arguments": arguments}


def only_text(parts: list[Part]) -> str | None:
    """The concatenated text when all parts are text; None when any is not."""
    if len(parts) == 1:
        return parts[0].value if isinstance(parts[0], TextPart) else None
    texts = [part.value for part in parts if isinstance(part, TextPart)]
    return "".join(texts) if len(texts) == len(parts) else None
