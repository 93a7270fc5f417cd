"""Which messages a session takes, and which of them it has taken before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from temporalio.exceptions import ApplicationError

from ...excerpt import one_line
from ...protocol.names import NOT_TAKEN
from ...protocol.session import SessionMessage, Taken
from ...valid_text import valid_text
from ..received import Received

REMEMBERED = 1_000
"""So many messages are known when they come again."""
MAX_TEXT_BYTES = 1024 * 1024


def not_taken(kind: str, text: str) -> ApplicationError:
    """The error of an update whose message is not taken."""
    return ApplicationError(text, {"kind": kind}, type=NOT_TAKEN, non_retryable=True)


def read_message(arguments: Sequence[Any], received: Received | None = None) -> SessionMessage:
    """The one message that an update should have; `received` in a workflow. Raises the refusal of anything else."""
    if received is not None:
        arguments = received.require_read(arguments, lambda why: not_taken("unreadable", why))
    try:
        (value,) = arguments
        message = SessionMessage.model_validate(value)
    except ValueError as error:
        raise not_taken(
            "unreadable", f"expected one object with text and id, got {one_line(repr(arguments), 200)}"
        ) from error
    text = valid_text(message.text)
    if not text.strip():
        raise not_taken("empty", "the message has no text: a turn begins with what somebody says")
    if (size := len(text.encode())) > MAX_TEXT_BYTES:
        raise not_taken("too_large", f"the message takes {size:,} bytes, at most {MAX_TEXT_BYTES:,} are possible")
    if not message.id:
        raise not_taken("unreadable", "the message has no id: expected one that no other message of the session has")
    return message.model_copy(update={"text": text})


class TakenMessages:
    """The last messages that were taken, by id, and what became of each."""

    def __init__(self, taken: Mapping[str, Taken]) -> None:
        self.known = dict(taken)

    def get(self, id: str) -> Taken | None:
        """What became of the message of that id; None if it was not taken, or too long ago."""
        return self.known.get(id)

    def remember(self, id: str, taken: Taken) -> Taken:
        """Remember what has become of it; returns that."""
        self.known[id] = taken
        while len(self.known) > REMEMBERED:
            del self.known[next(iter(self.known))]
        return taken
