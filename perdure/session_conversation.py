"""The conversation of a session: each turn continues it, and hands over its additions.

The workflow of a session keeps one, and a reader of the session's history builds an equal one from
the same facts.
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
"""A reference with more operations than this leaves them to the history."""


class SessionConversation:
    """A conversation that turns change, one after the other."""

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.unread = 0
        """The number of messages at the end that no turn has read."""
        self.unchecked = 0
        """The number of messages at the end that no turn's input guardrail has passed."""
        self.sent: list[Message] = []
        """The messages that opened and steered the current turn."""
        self._told: list[Operation] = []
        self._end = ("", -1)
        """The digest and the version after these."""
        self._is_complete = False
        self._unread_of_turn = 0
        self._unchecked_of_turn = 0
        self._own = 0
        """The number of operations at the end that no turn has handed over."""

    def instruct(self, messages: Sequence[Message]) -> None:
        """Replace the system messages at the beginning."""
        self.conversation.apply(Instruct(messages=list(messages)))
        self._own += 1

    def begin(self, opening: Sequence[Message]) -> None:
        """Begin a turn, whose opening messages follow the conversation."""
        self.sent = list(opening)
        self._begin_telling()

    def _begin_telling(self) -> None:
        self._told, self._is_complete, self._unread_of_turn, self._unchecked_of_turn = (
            [],
            False,
            0,
            0,
        )
        self._end = (self.conversation.digest, self.conversation.version)

    def steer(self, message: Message) -> None:
        """Record a further message to the turn."""
        self.sent.append(message)

    def hand_over(
        self, part: ConversationRef, *, is_last: bool, unread: int = 0, unchecked: int = 0
    ) -> bool:
        """Take a part of the turn's additions; the last one has the number of its unread messages,
        and of those that its input guardrail has not passed.

        Others may follow the last one, for messages that reached the turn meanwhile. Returns False
        for a part that does not continue the one before it, or that contradicts its digest.
        """
        begins = part.base == self.conversation.version
        digest, version = (
            (self.conversation.digest, self.conversation.version) if begins else self._end
        )
        for operation in part.operations:
            digest = next_digest(digest, operation)
        if (
            part.base != version
            or part.digest != digest
            or part.version != version + len(part.operations)
        ):
            return False
        if begins:
            self._begin_telling()
        self._told += part.operations
        self._end = (digest, part.version)
        self._is_complete, self._unread_of_turn, self._unchecked_of_turn = (
            is_last,
            unread,
            unchecked,
        )
        return True

    def end(self) -> bool:
        """End the turn: take the messages that it handed over, or those sent to it if it has handed
        over none.

        Returns whether it has handed them over. The next turn reads the messages, whenever it
        begins.
        """
        is_complete = self._is_complete
        for operation in self._told if is_complete else ():
            self.conversation.apply(operation)
        if not is_complete:
            self.conversation.append(self.sent)
        known = len(self.conversation.messages)
        self.unread = min(self._unread_of_turn, known) if is_complete else 0
        # A turn that reports nothing does not reveal which messages its guardrail passed.
        self.unchecked = min(
            self._unchecked_of_turn if is_complete else self.unchecked + len(self.sent), known
        )
        self._own = 0
        self.begin([])
        return is_complete

    def reference(self, *, whole: bool) -> ConversationRef:
        """Return a reference to the present conversation, with the operations since the last one
        that was `whole`.

        It omits those that turns have handed over, unless it is `whole` and they are small: the
        history has them.
        """
        conversation = self.conversation
        reference = conversation.ref(record=whole)
        if whole and sum(map(operation_bytes, reference.operations)) <= MAX_SHOWN_BYTES:
            return reference
        own: Sequence[Operation] = reference.operations[len(reference.operations) - self._own :]
        return reference.model_copy(
            update={"base": reference.version - len(own), "operations": list(own)}
        )


def handed_over(
    beginning: ConversationRef, operations: Sequence[Operation] | None, view: Conversation
) -> Conversation:
    """Return a conversation whose operations lead from `beginning` to `view`.

    They are the given `operations`, unless the view is smaller; None if they are unknown.
    """
    told = Conversation.recorded(version=beginning.version, digest=beginning.digest)
    if operations is None or _takes_more(operations, view):
        told.rewrite(view.messages)
    else:
        for operation in operations:
            told.apply(operation)
    return told


def let_through(
    beginning: ConversationRef,
    operations: Sequence[Operation] | None,
    view: Conversation,
    refused: range,
) -> Conversation:
    """As `handed_over`, without the messages of the view at the `refused` places, which the input
    guardrail refused.

    The model's texts stay, and so do the results of its calls, without their content.
    """
    kept = [
        _kept_messages(message) if place in refused else [message]
        for place, message in enumerate(view.messages)
    ]
    if operations is not None and all(isinstance(operation, Append) for operation in operations):
        known = len(kept) - sum(
            len(operation.messages) for operation in operations if isinstance(operation, Append)
        )
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
    """Return whether the operations are larger than the view, which requires operations that drop
    messages.
    """
    if all(isinstance(operation, Append) for operation in operations):
        return False
    return sum(map(operation_bytes, operations)) > total_bytes(view.messages)
