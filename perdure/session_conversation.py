"""The conversation of a session: each turn goes on from it, and hands over what it has added.

The workflow of a session keeps one, and whoever reads the session's history makes the same one of the same facts.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from .conversation import (
    Append,
    Conversation,
    ConversationRef,
    Instruct,
    Operation,
    next_digest,
    operation_bytes,
    total_bytes,
)
from .messages import Message, TextPart

WITHHELD = "[withheld: the input guardrail has refused the conversation with this result in it]"
MAX_SHOWN_BYTES = 64 * 1024
"""A reference that holds more operations than this leaves them to the history."""


class SessionConversation:
    """A conversation that turns change, one after the other."""

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.unread = 0
        """How many of the last messages no turn has read."""
        self.unchecked = 0
        """How many of the last messages the input guardrail of no turn has let through."""
        self.sent: list[Message] = []
        """The messages that the turn under way was opened and steered with."""
        self._told: list[Operation] = []
        self._end = ("", -1)
        """The digest and the version that these lead to."""
        self._is_complete = False
        self._unread_of_turn = 0
        self._unchecked_of_turn = 0
        self._own = 0
        """How many of the last operations no turn has handed over."""

    def instruct(self, messages: Sequence[Message]) -> None:
        """Replace the system messages at the beginning."""
        self.conversation.apply(Instruct(messages=list(messages)))
        self._own += 1

    def begin(self, opening: Sequence[Message]) -> None:
        """A turn begins, and these messages come to what was said before."""
        self.sent = list(opening)
        self._begin_telling()

    def _begin_telling(self) -> None:
        self._told, self._is_complete, self._unread_of_turn, self._unchecked_of_turn = [], False, 0, 0
        self._end = (self.conversation.digest, self.conversation.version)

    def steer(self, message: Message) -> None:
        """The turn was sent a further message."""
        self.sent.append(message)

    def hand_over(self, part: ConversationRef, *, is_last: bool, unread: int = 0, unchecked: int = 0) -> bool:
        """Return the turn tells a part of what it has added; the last one says how many messages it has not read, and
        how many its input guardrail has not let through.

        Others may follow the last one, for what the turn was sent meanwhile. False for what does not go on from the
        part before it, or is not what it says.
        """
        begins = part.base == self.conversation.version
        digest, version = (self.conversation.digest, self.conversation.version) if begins else self._end
        for operation in part.operations:
            digest = next_digest(digest, operation)
        if part.base != version or part.digest != digest or part.version != version + len(part.operations):
            return False
        if begins:
            self._begin_telling()
        self._told += part.operations
        self._end = (digest, part.version)
        self._is_complete, self._unread_of_turn, self._unchecked_of_turn = is_last, unread, unchecked
        return True

    def end(self) -> bool:
        """The turn has ended: take what it has handed over, or the messages that it was sent if it has not.

        Whether it has. The messages are read by the next turn, whenever that begins.
        """
        is_complete = self._is_complete
        for operation in self._told if is_complete else ():
            self.conversation.apply(operation)
        if not is_complete:
            self.conversation.append(self.sent)
        known = len(self.conversation.messages)
        self.unread = min(self._unread_of_turn, known) if is_complete else 0
        # Of a turn that says nothing, nobody knows what was let through.
        self.unchecked = min(self._unchecked_of_turn if is_complete else self.unchecked + len(self.sent), known)
        self._own = 0
        self.begin([])
        return is_complete

    def reference(self, *, whole: bool) -> ConversationRef:
        """A reference to the conversation as it is, with the operations since the last one that was `whole`.

        Without those that turns have handed over, if it is not to be whole or they are large: the history has them.
        """
        conversation = self.conversation
        reference = conversation.ref(record=whole)
        if whole and sum(map(operation_bytes, reference.operations)) <= MAX_SHOWN_BYTES:
            return reference
        own: Sequence[Operation] = reference.operations[len(reference.operations) - self._own :]
        return reference.model_copy(update={"base": reference.version - len(own), "operations": list(own)})


def handed_over(beginning: ConversationRef, operations: Sequence[Operation] | None, view: Conversation) -> Conversation:
    """Return a conversation whose operations lead from `beginning` to `view`.

    These are `operations`, if that is how it was, unless it takes less to tell the view; None where nobody knows them.
    """
    told = Conversation.recorded(version=beginning.version, digest=beginning.digest)
    if operations is None or _takes_more(operations, view):
        told.rewrite(view.messages, is_view=True)
    else:
        for operation in operations:
            told.apply(operation)
    return told


def let_through(
    beginning: ConversationRef, operations: Sequence[Operation] | None, view: Conversation, refused: range
) -> Conversation:
    """As `handed_over`, without what the input guardrail has refused: the messages of the view at those places.

    What the model has said stays, and so do the results of its calls, without their content.
    """
    kept = [_kept_messages(message) if place in refused else [message] for place, message in enumerate(view.messages)]
    if operations is not None and all(isinstance(operation, Append) for operation in operations):
        known = len(kept) - sum(len(operation.messages) for operation in operations if isinstance(operation, Append))
        if refused.start >= known:
            told = Conversation.recorded(version=beginning.version, digest=beginning.digest)
            told.append(list(chain.from_iterable(kept[known:])))
            return told
    return handed_over(beginning, None, Conversation(chain.from_iterable(kept)))


def _kept_messages(message: Message) -> list[Message]:
    match message.role:
        case "assistant" | "system" | "developer":
            return [message]
        case "tool":
            return [message.model_copy(update={"parts": [TextPart(value=WITHHELD)]})]
    return []


def _takes_more(operations: Sequence[Operation], view: Conversation) -> bool:
    """Return whether the operations take more than the view; only those can that drop messages."""
    if all(isinstance(operation, Append) for operation in operations):
        return False
    return sum(map(operation_bytes, operations)) > total_bytes(view.messages)
