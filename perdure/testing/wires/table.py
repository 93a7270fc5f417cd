"""The three wire formats that the scripted model speaks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from ...json_types import JsonObject
from ...messages import Message
from ..script import Api
from . import anthropic, chat, responses
from .chat import CountedReply


class Wire(Protocol):
    """Reads the requests of one API and writes its responses: one module each."""

    API: Api
    REQUEST_ID_HEADER: str

    def count_turns(self, body: JsonObject) -> int:
        """Return the assistant turns in the conversation of a request."""

    def read_messages(self, body: JsonObject) -> list[Message]:
        """Return the conversation of a request in the neutral form."""

    def find_fault(self, body: JsonObject) -> str | None:
        """Return the reason why the real API would answer 400, or None."""

    def answer(self, given: CountedReply) -> JsonObject:
        """Return the body of a response that is not streamed."""

    def stream(self, given: CountedReply) -> Iterator[bytes]:
        """Yield the server-sent events of a streamed response."""

    def error(self, status: int, message: str) -> JsonObject:
        """Return the body of an error response, in the provider's shape."""


WIRES: dict[str, Wire] = {
    "/chat/completions": chat,
    "/responses": responses,
    "/messages": anthropic,
}
"""By the end of the request's path."""


def wire_for(path: str) -> Wire | None:
    """Return the wire format of a request path, without its query string; None for an unknown
    path.
    """
    return next((wire for end, wire in WIRES.items() if path.partition("?")[0].endswith(end)), None)
