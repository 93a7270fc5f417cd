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
from ..trimming import is_summary
from .events import RecordedWork, decode


class Transcript:
    """All messages of a run: follows the operations on its conversation, but keeps trimmed
    messages.
    """

    def __init__(self, seed: Sequence[Message]) -> None:
        self.messages = list(seed)
        self._seen = Conversation(seed)

    def follow(self, operations: Iterable[Operation], sent: Sequence[Message] = ()) -> None:
        """Apply the next operations.

        The operations that lead to a view come together, with the messages `sent` before it, which
        may have been trimmed.
        """
        operations = list(operations)
        if operations and isinstance(operations[0], Rewrite) and operations[0].is_view:
            self._follow_view(operations, sent)
            return
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

    def _follow_view(self, operations: Sequence[Operation], sent: Sequence[Message]) -> None:
        known = list(self._seen.messages)
        for operation in operations:
            self._seen.apply(operation)
        view = self._seen.messages
        instructions = count_of_instructions(view)
        if view[:instructions] != known[: count_of_instructions(known)]:
            self.messages[: count_of_instructions(self.messages)] = view[:instructions]
        new = [
            message
            for message in unknown_messages(known, view[instructions:])
            if not is_summary(message)
        ]
        self.messages += [*unknown_messages(new, sent), *new]

    def add_refused(self, messages: Iterable[Message], reason: str) -> None:
        """Keep messages refused by an input guardrail: the conversation continues without them."""
        self.messages += [
            message.model_copy(update={"metadata": {**message.metadata, "refused": reason}})
            for message in messages
        ]

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
