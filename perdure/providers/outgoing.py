"""Adapts a conversation to the server that it is sent to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from string import ascii_lowercase, digits
from typing import Any

from pydantic_core import from_json

from ..agents import Agent
from ..arguments import parse_tool_arguments
from ..errors import ToolArgumentError
from ..json_types import JsonObject
from ..messages import Message, TextPart, ToolCall
from ..schema import without_alternatives
from .base import FunctionDefinition, offered_functions
from .dialects import Recipient
from .memo import Memo, Unchanging
from .tool_call_text import Call, compact_json

BEGIN = "Begin."
"""The user's message for a server that requires one at the beginning of a conversation without
any."""
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
_INVALID = re.compile(r"[^a-zA-Z0-9_-]+")
_MAX_TRIES = 1000
_SYMBOLS = digits + ascii_lowercase


@lru_cache(maxsize=4096)
def short_digest(text: str) -> str:
    """Return nine letters and digits derived from the text, the same in every request: an id that
    every API accepts.
    """
    number = int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())
    return "".join(_SYMBOLS[number // 36**place % 36] for place in range(9))


@lru_cache(maxsize=1024)
def wire_name(name: str) -> str:
    """Return a name that every API accepts for a tool: its own if possible, else a similar one."""
    if _NAME.fullmatch(name):
        return name
    like = _INVALID.sub("_", name).strip("_-")[:48]
    return f"{like if like[:1].isalpha() else f'tool_{like}'.strip('_')}_{short_digest(name)}"


def as_offered(definition: FunctionDefinition) -> FunctionDefinition:
    """Return the function with a name and a schema that every API accepts."""
    return definition._replace(
        name=wire_name(definition.name), parameters=without_alternatives(definition.parameters)
    )


def own_names(calls: Sequence[ToolCall], agent: Agent) -> list[ToolCall]:
    """Return the calls with the tools' own names instead of those that the model was offered."""
    names = (
        {wire_name(function.name): function.name for function in offered_functions(agent)}
        if calls
        else {}
    )
    return [call.model_copy(update={"name": names.get(call.name, call.name)}) for call in calls]


def wire_arguments(arguments: str) -> str:
    """Return arguments as the text of a JSON object: unchanged, else with the repairs of §9.8, else
    wrapped.
    """
    try:
        if isinstance(from_json(arguments, allow_inf_nan=False), dict):
            return arguments
    except ValueError:
        pass
    return compact_json(arguments_object(arguments))


def arguments_object(arguments: str) -> JsonObject:
    """Return the arguments as an object; text beyond repair is wrapped, so that the model sees its
    own text.
    """
    try:
        return parse_tool_arguments(arguments)
    except ToolArgumentError:
        return {"unparsed_arguments": arguments}


def for_server(
    messages: Sequence[Message], api: str, server: Recipient, *, needs_message: bool = False
) -> Sequence[Message]:
    """Return the conversation in the server's form; a message that needs no change is the same
    object.
    """
    clean = _clean(messages)
    outgoing = list(_address(clean, api, server))
    if messages and (needs_message or server.dialect.needs_user):
        _begin_with_user(outgoing, only_if_empty=not server.dialect.needs_user)
    return Unchanging(outgoing) if isinstance(messages, Unchanging) else outgoing


def with_unique_ids(reply: Message, before: Sequence[Message]) -> Message:
    """Return the reply with call ids that occur neither twice in it nor in the conversation before
    it.
    """
    used = {call["id"] for message in before for call in message.metadata.get("tool_calls") or ()}
    calls = reply.metadata.get("tool_calls") or []
    ids = [_first_free(call["id"], used) for call in calls]
    return reply if ids == [call["id"] for call in calls] else _with_ids(reply, ids)


def _clean_message(message: Message) -> list[Message]:
    """Return the message with tool names and arguments that every server accepts."""
    calls = message.metadata.get("tool_calls") or []
    clean = [_clean_call(call) for call in calls]
    return [message if clean == calls else _with_metadata(message, tool_calls=clean)]


_clean = Memo[Message, Message](_clean_message)


def _clean_call(call: JsonObject) -> JsonObject:
    function = call["function"]
    name, arguments = wire_name(function["name"]), wire_arguments(function["arguments"])
    kept = {key: value for key, value in call.items() if key != "fault"}
    return {**kept, "function": {**function, "name": name, "arguments": arguments}}


def _address(messages: Sequence[Message], api: str, server: Recipient) -> Iterator[Message]:
    """Yield the messages with unique ids that the server accepts, and without content that only
    others understand.
    """
    used: set[str] = set()
    open_calls: list[tuple[str, str]] = []
    for message in messages:
        if message.role == "tool":
            yield _result(message, open_calls, server)
            continue
        if message.role != "assistant":
            yield message
            continue
        own = private_content(message, api, server.name)
        old = [call["id"] for call in message.metadata.get("tool_calls") or ()]
        ids = [
            _first_free(_acceptable_id(id, own, server), used, server.dialect.derive_id)
            for id in old
        ]
        open_calls = list(zip(old, ids, strict=True))
        changed = message if ids == old else _with_ids(message, ids)
        content = _content_for(message, own, api, server)
        is_same = content is message.metadata.get("provider_content")
        yield changed if is_same else _with_metadata(changed, provider_content=content)


def _acceptable_id(id: str, own: list[Any] | None, server: Recipient) -> str:
    derive = server.dialect.derive_id
    is_taken = _matches(server.dialect.ids, id) or (own is not None and derive is None)
    return id if id and is_taken else (derive or str)(short_digest(id))


_matches = lru_cache(maxsize=4096)(re.fullmatch)


def _first_free(id: str, used: set[str], derive: Callable[[str], str] | None = None) -> str:
    new, count = id, 0
    while new in used or not new:
        count += 1
        if count > _MAX_TRIES:
            raise ValueError(
                f"derive_id of the dialect makes too few ids: {new!r} again after {count} tries"
            )
        new = (derive or str)(short_digest(f"{id}#{count}"))
    used.add(new)
    return new


def _result(message: Message, open_calls: list[tuple[str, str]], server: Recipient) -> Message:
    """Return the result with the id of its call, the first open one of that id; `open_calls` has
    the ids of the others then, old and new.
    """
    new = old = message.metadata.get("tool_call_id")
    for place, (id, renamed) in enumerate(open_calls):
        if id == old:
            new = renamed
            del open_calls[place]
            break
    if not server.dialect.sees and any(not isinstance(part, TextPart) for part in message.parts):
        words = f"not shown: {server.dialect.name} only accepts text"
        parts = [
            part if isinstance(part, TextPart) else TextPart(value=f"[{part.kind}, {words}]")
            for part in message.parts
        ]
        message = message.model_copy(update={"parts": parts})
    return message if new == old else _with_metadata(message, tool_call_id=new)


def _content_for(
    message: Message, own: list[Any] | None, api: str, server: Recipient
) -> JsonObject | None:
    """Return the private content for the server: its own, else the fields that it requires in
    messages with calls.
    """
    fills, fills_call = server.dialect.fills, server.dialect.fills_call
    if not own and api == "chat" and (fills or fills_call) and message.metadata.get("tool_calls"):
        return {
            "api": api,
            "server": server.name,
            "content": [{**fills, "tool_calls": [fills_call]}],
        }
    return None if own is None else message.metadata["provider_content"]


def private_content(message: Message, api: str, server: str | None = None) -> list[Any] | None:
    """Return the message's content from this API, on that server if it is named; None for content
    from elsewhere.
    """
    kept = message.metadata.get("provider_content")
    is_own = (
        kept and kept.get("api") == api and (server is None or kept.get("server") in (None, server))
    )
    return list(kept["content"]) if kept and is_own else None


def kept_content(
    original: list[Any] | None, api: str, server: Recipient, ids: Sequence[str]
) -> list[Any] | None:
    """Return the content to keep of a reply, whose calls have the ids, for the server that it came
    from; None for nothing.

    A server accepts the ids that it issued: if its dialect does not imply that, their origin is
    kept at least.
    """
    if api != "chat":
        return original or None
    dialect, fields = server.dialect, original[0] if original else {}
    names = {*dialect.keeps, *(dialect.keeps_beside_calls if ids else ())}
    kept = {key: value for key, value in fields.items() if key in names}
    calls = [
        {key: value for key, value in call.items() if key in names}
        for call in fields.get("tool_calls") or ()
    ]
    if any(calls):
        kept["tool_calls"] = calls
    is_strange = not all(re.fullmatch(dialect.ids, id) for id in ids)
    return [kept] if kept else [] if is_strange else None


def same_calls(one: Sequence[Call], other: Sequence[Call]) -> bool:
    """Return whether both have the same names and arguments, ignoring their ids."""
    shapes = [
        [(wire_name(call.name), wire_arguments(call.arguments)) for call in calls]
        for calls in (one, other)
    ]
    return shapes[0] == shapes[1]


def _with_ids(message: Message, ids: Sequence[str]) -> Message:
    calls = message.metadata["tool_calls"]
    return _with_metadata(
        message, tool_calls=[{**call, "id": id} for call, id in zip(calls, ids, strict=True)]
    )


def _with_metadata(message: Message, **changed: Any) -> Message:
    metadata = {
        key: value for key, value in {**message.metadata, **changed}.items() if value is not None
    }
    return message.model_copy(update={"metadata": metadata})


_BEGINNING = Message.user(BEGIN)


def _begin_with_user(messages: list[Message], *, only_if_empty: bool) -> None:
    first = next(
        (index for index, message in enumerate(messages) if not message.instructs), len(messages)
    )
    if first == len(messages) or not (only_if_empty or messages[first].role == "user"):
        messages.insert(first, _BEGINNING)
