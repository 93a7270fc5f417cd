"""The three wire formats that the scripted model speaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ...messages import Message
from ..script import Api
from . import anthropic_answer, anthropic_request, chat_answer, chat_request, responses_answer, responses_request
from .answer import Answer


@dataclass(frozen=True)
class Wire:
    """How one API's requests are read and its answers written."""

    api: Api
    path: str
    """The end of the request's path."""
    request_id_header: str
    count_turns: Callable[[dict[str, Any]], int]
    read_messages: Callable[[dict[str, Any]], list[Message]]
    find_fault: Callable[[dict[str, Any]], str | None]
    answer: Callable[[Answer], dict[str, Any]]
    stream: Callable[[Answer], Iterator[bytes]]
    error: Callable[[int, str], dict[str, Any]]


WIRES = (
    Wire(
        api="chat",
        path="/chat/completions",
        request_id_header="x-request-id",
        count_turns=chat_request.count_turns,
        read_messages=chat_request.read_messages,
        find_fault=chat_request.find_fault,
        answer=chat_answer.answer,
        stream=chat_answer.stream,
        error=chat_answer.error,
    ),
    Wire(
        api="responses",
        path="/responses",
        request_id_header="x-request-id",
        count_turns=responses_request.count_turns,
        read_messages=responses_request.read_messages,
        find_fault=responses_request.find_fault,
        answer=responses_answer.answer,
        stream=responses_answer.stream,
        error=responses_answer.error,
    ),
    Wire(
        api="anthropic",
        path="/messages",
        request_id_header="request-id",
        count_turns=anthropic_request.count_turns,
        read_messages=anthropic_request.read_messages,
        find_fault=anthropic_request.find_fault,
        answer=anthropic_answer.answer,
        stream=anthropic_answer.stream,
        error=anthropic_answer.error,
    ),
)


def wire_for(path: str) -> Wire | None:
    """The wire format of a request path (its query string is ignored); None when there is none."""
    return next((wire for wire in WIRES if path.partition("?")[0].endswith(wire.path)), None)
