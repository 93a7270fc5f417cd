"""The complete record of a run's messages, trimmed ones included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from temporalio.client import Client

from ..conversation import (
    Append,
    Conversation,
    Instruct,
    Operation,
    Rewrite,
    Trim,
    count_of_instructions,
)
from ..messages import Message
from ..protocol import activities
from .events import RecordedWork, decode


class Transcript:
    """All messages of a run: follows the operations on its conversation, but keeps trimmed
    messages.
    """

    def __init__(self, seed: Sequence[Message]) -> None:
        self.messages = list(seed)
        self._seen = Conversation(seed)

    def follow(self, operations: Iterable[Operation]) -> None:
        """Apply the next operations."""
        for operation in operations:
            match operation:
                case Append(messages=messages):
                    self.messages += messages
                case Rewrite(messages=messages):
                    self._forget_visible()
                    self.messages += messages
                case Instruct(messages=messages):
                    self.messages[: count_of_instructions(self.messages)] = messages
                case Trim():
                    pass
            self._seen.apply(operation)

    def begin_link(self, seed: Sequence[Message]) -> None:
        """Continue with the next link of the run, which starts from `seed`.

        Takes the messages that only the seed has: after the last recorded operation, the previous
        link can only have appended some.
        """
        self.messages += seed[len(self._seen.messages) :]
        self._seen = Conversation(seed)

    def _forget_visible(self) -> None:
        """Remove the messages that the model has seen so far: a guardrail has replaced them."""
        visible = Counter(message.model_dump_json() for message in self._seen.messages)
        kept = list[Message]()
        for message in reversed(self.messages):
            key = message.model_dump_json()
            if visible[key] > 0:
                visible[key] -= 1
            else:
                kept.append(message)
        self.messages = kept[::-1]


def unknown_messages(known: Sequence[Message], messages: Sequence[Message]) -> list[Message]:
    """Return the messages that are not among the known ones; each known message removes one
    occurrence.
    """
    left = Counter(message.model_dump_json() for message in known)
    found = list[Message]()
    for message in messages:
        key = message.model_dump_json()
        if left[key] > 0:
            left[key] -= 1
        else:
            found.append(message)
    return found


async def loaded_pieces(client: Client, work: RecordedWork) -> list[Message]:
    """Return the messages that the link has loaded in pieces, in the order of the conversation."""
    pieces: dict[int, list[Message]] = {}
    for load in work.activities_of({activities.LOAD_PIECE}):
        if load.result is not None:
            start = (await decode(client, load.input, activities.PieceInput)).start
            pieces[start] = await decode(client, load.result, list[Message])
    return [message for _, messages in sorted(pieces.items()) for message in messages]
