"""The three wire formats that the scripted model speaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ...json_types import JsonObject
from ...messages import Message
from ..script import Api
from . import anthropic, chat, responses
from .chat import CountedReply


@dataclass(frozen=True)
class Wire:
    """How one API's requests are read and its responses written."""

    api: Api
    path: str
    """The end of the request's path."""
    request_id_header: str
    count_turns: Callable[[JsonObject], int]
    read_messages: Callable[[JsonObject], list[Message]]
    find_fault: Callable[[JsonObject], str | None]
    answer: Callable[[CountedReply], JsonObject]
    stream: Callable[[CountedReply], Iterator[bytes]]
    error: Callable[[int, str], JsonObject]


WIRES = (
    Wire(
        api="chat",
        path="/chat/completions",
        request_id_header="x-request-id",
        count_turns=chat.count_turns,
        read_messages=chat.read_messages,
        find_fault=chat.find_fault,
        answer=chat.answer,
        stream=chat.stream,
        error=chat.error,
    ),
    Wire(
        api="responses",
        path="/responses",
        request_id_header="x-request-id",
        count_turns=responses.count_turns,
        read_messages=responses.read_messages,
        find_fault=responses.find_fault,
        answer=responses.answer,
        stream=responses.stream,
        error=chat.error,
    ),
    Wire(
        api="anthropic",
        path="/messages",
        request_id_header="request-id",
        count_turns=chat.count_turns,
        read_messages=anthropic.read_messages,
        find_fault=anthropic.find_fault,
        answer=anthropic.answer,
        stream=anthropic.stream,
        error=anthropic.error,
    ),
)


def wire_for(path: str) -> Wire | None:
    """Return the wire format of a request path, whose query string is ignored; None when no API has
    that path.
    """
    return next((wire for wire in WIRES if path.partition("?")[0].endswith(wire.path)), None)
