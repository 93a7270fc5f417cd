"""The complete record of what was said in a run, trimmed messages included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ..conversation import Conversation, Operation, Rewrite, Trim
from ..messages import Message


class Transcript:
    """Everything that was said in a run: follows the operations on its conversation, but keeps what trimming drops."""

    def __init__(self, seed: Sequence[Message]) -> None:
        self.messages = list(seed)
        self._seen = Conversation(seed)

    def follow(self, operations: Iterable[Operation]) -> None:
        """Take up what the next operations say."""
        for operation in operations:
            if isinstance(operation, Rewrite):
                self._forget_visible()
            if not isinstance(operation, Trim):
                self.messages += operation.messages
            self._seen.apply(operation)

    def begin_link(self, seed: Sequence[Message]) -> None:
        """Go on with the next link of the run, which starts from `seed`.

        Messages that only the seed has are taken from there: after the last recorded operation, the link before can
        only have appended some.
        """
        self.messages += seed[len(self._seen.messages) :]
        self._seen = Conversation(seed)

    def _forget_visible(self) -> None:
        """Remove what the model has seen until now: a guardrail has put other messages in its place."""
        visible = Counter(message.model_dump_json() for message in self._seen.messages)
        kept = list[Message]()
        for message in reversed(self.messages):
            key = message.model_dump_json()
            if visible[key] > 0:
                visible[key] -= 1
            else:
                kept.append(message)
        self.messages = kept[::-1]
