"""Everything that was said in a run, with what became of it: messages that were trimmed stay, and say so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import BaseModel

from ...messages import Message
from ...operations import Append, Operation, Rewrite, Trim


class ToldMessage(BaseModel):
    """One message of a run, whether the model still sees it or not."""

    iteration: int
    """The iteration that has added it; 0 for what the run began with."""
    message: Message
    gone: int | None = None
    """The iteration before whose model call it was taken from the model's view; None as long as it is there."""
    is_summary: bool = False
    """Whether it stands in the place of messages that were trimmed."""


class Told:
    """Follows the operations on a conversation, as `Conversation.apply` does, and forgets nothing."""

    def __init__(self, seed: Iterable[Message]) -> None:
        self.messages: list[ToldMessage] = []
        """In the order in which they were added."""
        self._visible: list[ToldMessage] = []
        self._add(seed, 0)

    def follow(self, operations: Sequence[Operation], iteration: int) -> None:
        """Take up what was changed in that iteration."""
        for operation in operations:
            match operation:
                case Append(messages=messages):
                    self._add(messages, iteration)
                case Rewrite(messages=messages):
                    self._rewrite(messages, iteration)
                case Trim():
                    self._trim(operation, iteration)

    def _add(self, messages: Iterable[Message], iteration: int, *, is_summary: bool = False) -> list[ToldMessage]:
        added = [ToldMessage(iteration=iteration, message=each, is_summary=is_summary) for each in messages]
        self.messages += added
        self._visible += added
        return added

    def _rewrite(self, messages: Sequence[Message], iteration: int) -> None:
        """A guardrail has put other messages in the place of all; those that are the same stay."""
        same = 0
        while same < min(len(messages), len(self._visible)) and messages[same] == self._visible[same].message:
            same += 1
        for told in self._visible[same:]:
            told.gone = iteration
        del self._visible[same:]
        self._add(messages[same:], iteration)

    def _trim(self, trim: Trim, iteration: int) -> None:
        dropped = self._visible[trim.head : trim.head + trim.drop]
        kept = [told for told in dropped if told.message.instructs]
        for told in dropped:
            if not told.message.instructs:
                told.gone = iteration
        rest = self._visible[trim.head + trim.drop :]
        del self._visible[trim.head :]
        self._visible += kept
        self._add([trim.summary], iteration, is_summary=True)
        self._visible += rest
