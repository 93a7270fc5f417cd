"""The journaled conversation: the same pure class in the workflow, which writes it, and in the worker, which follows.

A run records each message once or twice, never once per model call. The workflow changes its
`Conversation` by operations and hands activities a `ConversationRef`: the version they need, and only
the operations made since the last reference. Whoever holds the conversation at `base` applies
the operations and compares the digest; whoever does not, folds them out of the run's history.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from json import dumps
from typing import Annotated, Literal

from pydantic import BaseModel, Field, TypeAdapter

from .messages import Message, TextPart


class Append(BaseModel):
    op: Literal["append"] = "append"
    messages: list[Message]


class Trim(BaseModel):
    """Drop `drop` messages behind the first `head`, and put `summary` in their place (§13.3)."""

    op: Literal["trim"] = "trim"
    head: int
    drop: int
    summary: Message


class Rewrite(BaseModel):
    """Replace the whole list, as an input guardrail's rewrite does (§13.4)."""

    op: Literal["rewrite"] = "rewrite"
    messages: list[Message]


Operation = Annotated[Append | Trim | Rewrite, Field(discriminator="op")]
_OPERATION: TypeAdapter[Append | Trim | Rewrite] = TypeAdapter(Operation)


class ConversationRef(BaseModel):
    """What travels instead of a conversation."""

    base: int
    """The version that `operations` start from."""
    version: int
    digest: str
    """Of the conversation at `version`: a chain over the seed and every operation since."""
    operations: list[Operation] = []


class DigestMismatchError(Exception):
    """The operations at hand do not lead to the conversation that the workflow meant."""


def _link(digest: str, data: bytes) -> str:
    return blake2b(data, key=digest.encode(), digest_size=16).hexdigest()


def _message_bytes(message: Message) -> bytes:
    return message.model_dump_json(exclude_defaults=True).encode()


def _operation_bytes(operation: Operation) -> bytes:
    # Fields that still hold their default are left out, so that a field added later changes no digest.
    return _OPERATION.dump_json(operation, exclude_defaults=True)


class Conversation:
    """A list of messages with a version, changed only by operations.

    Each operation raises `version` by one. `messages` must not be changed by anyone else.
    """

    def __init__(self, messages: Iterable[Message] = (), *, version: int = 0, digest: str | None = None) -> None:
        self.messages: list[Message] = list(messages)
        self.version = version
        self.operations: list[Operation] = []
        """Every operation applied to this object, the first of which led from `first_version` on."""
        self.first_version = version
        self._digests = [digest] if digest else []
        """The digest at `first_version` and behind each operation, as far as anyone has asked."""
        self._handed_over = version
        self._sizes = [message_chars(message) for message in self.messages]
        self.chars = sum(self._sizes)
        """The size of the messages in characters, by §13.3's estimate."""

    def append(self, messages: Sequence[Message]) -> None:
        for batch in split(messages, BATCH_CHARS):
            self.apply(Append(messages=batch))

    def trim(self, head: int, drop: int, summary: Message) -> None:
        self.apply(Trim(head=head, drop=drop, summary=summary))

    def rewrite(self, messages: Sequence[Message]) -> None:
        first, *more = split(messages, BATCH_CHARS) or [[]]
        self.apply(Rewrite(messages=first))
        for batch in more:
            self.apply(Append(messages=batch))

    def apply(self, operation: Operation) -> None:
        match operation:
            case Append(messages=messages):
                self._replace(len(self.messages), 0, messages)
            case Trim(head=head, drop=drop, summary=summary):
                self._replace(head, drop, [summary])
            case Rewrite(messages=messages):
                self._replace(0, len(self.messages), messages)
        self.operations.append(operation)
        self.version += 1

    def _replace(self, start: int, count: int, messages: Sequence[Message]) -> None:
        sizes = [message_chars(message) for message in messages]
        self.chars += sum(sizes) - sum(self._sizes[start : start + count])
        self.messages[start : start + count] = messages
        self._sizes[start : start + count] = sizes

    def load(self, messages: Sequence[Message]) -> None:
        """Set the messages of a conversation that was made without them; version and digest stay as given."""
        if self.operations or self.messages:
            raise ValueError("only an empty conversation without operations can be loaded")
        self._replace(0, 0, messages)

    @property
    def recorded_chars(self) -> int:
        """About how many characters the messages take when they are recorded."""
        return sum(map(recorded_chars, self.messages))

    @property
    def sizes(self) -> Sequence[int]:
        """The size of each message in characters (§13.3)."""
        return self._sizes

    @property
    def digest(self) -> str:
        """Identifies the seed and every operation since; equal digests mean equal conversations.

        Must be asked for before the first operation, unless it was given at the start.
        """
        return self._digest_at(self.version)

    def _digest_at(self, version: int) -> str:
        if not self._digests:
            if self.operations:
                raise ValueError("the digest of the seed must be taken before the first operation")
            self._digests = [_link("", b"".join(map(_message_bytes, self.messages)))]
        for operation in self.operations[len(self._digests) - 1 :]:
            self._digests.append(_link(self._digests[-1], _operation_bytes(operation)))
        return self._digests[version - self.first_version]

    def since(self, version: int) -> Sequence[Operation]:
        """The operations that led from `version` to now."""
        return self.operations[version - self.first_version :]

    def ref(self, *, hand_over: bool = True) -> ConversationRef:
        """A reference to the conversation as it is now.

        With `hand_over`, the operations count as recorded and the next reference starts behind them.
        Pass False where the reference's bearer leaves no trace of its input in the history.
        """
        reference = ConversationRef(
            base=self._handed_over,
            version=self.version,
            digest=self.digest,
            operations=list(self.since(self._handed_over)),
        )
        if hand_over:
            self._handed_over = self.version
        return reference

    def partial_refs(self, limit_chars: int) -> Iterator[ConversationRef]:
        """References that hand over pending operations ahead, each about `limit_chars`; the last such batch stays."""
        while sum(map(operation_chars, self.pending)) > limit_chars:
            chars, operations = 0, list[Operation]()
            for operation in self.pending:
                chars += operation_chars(operation)
                if operations and chars > limit_chars:
                    break
                operations.append(operation)
            if len(operations) == len(self.pending):
                return
            base, self._handed_over = self._handed_over, self._handed_over + len(operations)
            yield ConversationRef(
                base=base, version=self._handed_over, digest=self._digest_at(self._handed_over), operations=operations
            )

    @property
    def pending(self) -> Sequence[Operation]:
        """The operations that no reference has handed over yet."""
        return self.since(self._handed_over)

    def follow(self, reference: ConversationRef) -> None:
        """Bring this copy to the version of `reference`, by its operations.

        Raises `DigestMismatchError` when they do not fit; this copy is then of no more use.
        """
        if not reference.base <= self.version <= reference.version:
            raise DigestMismatchError(
                f"the conversation is at version {self.version}, the operations lead from "
                f"{reference.base} to {reference.version}"
            )
        for operation in reference.operations[self.version - reference.base :]:
            self.apply(operation)
        if self.version != reference.version or self.digest != reference.digest:
            raise DigestMismatchError(
                f"the conversation at version {self.version} has digest {self.digest}, "
                f"version {reference.version} with {reference.digest} was expected"
            )

    def forget_operations(self) -> None:
        """Drop the log of past operations, for holders that only ever look at the present."""
        self._digests = [self.digest]
        self.operations.clear()
        self.first_version = self._handed_over = self.version


PIECE_CHARS = 512 * 1024
"""A conversation up to this size is carried over in one payload; a larger one in pieces of it."""
BATCH_CHARS = 256 * 1024
"""No operation holds more, unless one message does: so none outgrows what Temporal can carry."""


def split(messages: Sequence[Message], limit_chars: int = PIECE_CHARS) -> list[list[Message]]:
    """The messages in runs of at most `limit_chars` characters as recorded; a larger message stands alone."""
    pieces: list[list[Message]] = []
    chars = 0
    for message in messages:
        size = recorded_chars(message)
        if not pieces or chars + size > limit_chars:
            pieces.append([])
            chars = 0
        pieces[-1].append(message)
        chars += size
    return pieces


def operation_chars(operation: Operation) -> int:
    """About how many characters the operation takes when it is recorded."""
    messages = [operation.summary] if isinstance(operation, Trim) else operation.messages
    return sum(map(recorded_chars, messages))


def recorded_chars(message: Message) -> int:
    """About how many characters the message takes when it is recorded: its text, and what a provider added."""
    own = message.metadata.get("provider_content")
    return message_chars(message) + 80 + (len(dumps(own)) if own else 0)


def message_chars(message: Message) -> int:
    """The size of one message in characters, by §13.3's estimate."""
    size = len(message.role) + 4
    for part in message.parts:
        size += len(part.value) if isinstance(part, TextPart) else 200
    if calls := message.metadata.get("tool_calls"):
        size += sum(_call_chars(call) for call in calls) + 2 * len(calls)
    return size


def _call_chars(call: dict[str, object]) -> int:
    """The length of a tool call's JSON, as `json.dumps` writes it, list punctuation excluded."""
    return len(dumps(call))


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
        visible = Counter(map(_message_bytes, self._seen.messages))
        kept = list[Message]()
        for message in reversed(self.messages):
            key = _message_bytes(message)
            if visible[key] > 0:
                visible[key] -= 1
            else:
                kept.append(message)
        self.messages = kept[::-1]
