"""The complete record of what was said in a run, trimmed messages included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ..conversation import Conversation
from ..messages import Message
from ..operations import Operation, Rewrite, Trim


class Transcript:
    """Everything that was ever said in a run: it follows the operations, and keeps what trimming drops."""

    def __init__(self, seed: Sequence[Message]) -> None:
        self.messages = list(seed)
        self._seen = Conversation(seed)

    def follow(self, operations: Iterable[Operation]) -> None:
        for operation in operations:
            if isinstance(operation, Rewrite):
                self._forget_visible()
            if not isinstance(operation, Trim):
                self.messages += operation.messages
            self._seen.apply(operation)

    def begin_link(self, seed: Sequence[Message]) -> None:
        """Go on with the next link of the run, which starts from `seed`; what only it holds is taken over.

        Since the last operation that was handed over, messages can only have been appended.
        """
        self.messages += seed[len(self._seen.messages) :]
        self._seen = Conversation(seed)

    def _forget_visible(self) -> None:
        """Take out what the model saw until now: a guardrail has put other messages in their place."""
        visible = Counter(message.model_dump_json() for message in self._seen.messages)
        kept = list[Message]()
        for message in reversed(self.messages):
            key = message.model_dump_json()
            if visible[key] > 0:
                visible[key] -= 1
            else:
                kept.append(message)
        self.messages = kept[::-1]
