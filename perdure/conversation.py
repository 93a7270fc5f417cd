"""The journaled conversation: the same pure class in the workflow, which writes it, and in the worker, which follows.

A run records each message once or twice, never once per model call. The workflow changes its
`Conversation` by operations and hands activities a `ConversationRef`: the version they need, and only
the operations made since the last reference. Whoever holds the conversation at `base` applies
the operations and compares the digest; whoever does not, folds them out of the run's history.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Annotated, Literal

from pydantic import BaseModel, Field, TypeAdapter

from .message_sizes import message_chars, split, total_bytes
from .messages import Message, TextPart

BATCH_BYTES = 256 * 1024
"""No operation holds more, unless one message does: so none outgrows what Temporal can carry."""


class Append(BaseModel):
    op: Literal["append"] = "append"
    messages: list[Message]


class Trim(BaseModel):
    """Put `summary` in the place of `drop` messages behind the first `head`, except system messages (§13.3)."""

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


def _operation_bytes(operation: Operation) -> bytes:
    messages = [operation.summary] if isinstance(operation, Trim) else operation.messages
    # Fields that still hold their default are left out, so that a field added later changes no digest.
    return operation.op.encode() + _OPERATION.dump_json(operation, exclude_defaults=True) + _media_kinds(messages)


def _seed_bytes(messages: Sequence[Message]) -> bytes:
    dumped = [message.model_dump_json(exclude_defaults=True).encode() for message in messages]
    return b"".join([*dumped, _media_kinds(messages)])


def _media_kinds(messages: Sequence[Message]) -> bytes:
    """What the dumps leave out: the kinds of parts, by which alone an image differs from a file."""
    kinds = [part.kind for message in messages for part in message.parts if not isinstance(part, TextPart)]
    return ",".join(kinds).encode()


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
        self._recorded_version = version
        self._sizes: list[int] = []
        """Of the first messages, as far as anyone has asked."""
        self._recorded_bytes = 0
        """Of all but the last messages, which nobody has asked about yet."""
        self._unmeasured = list(self.messages)

    def append(self, messages: Sequence[Message]) -> None:
        for batch in split(messages, BATCH_BYTES):
            self.apply(Append(messages=batch))

    def trim(self, head: int, drop: int, summary: Message) -> None:
        self.apply(Trim(head=head, drop=drop, summary=summary))

    def rewrite(self, messages: Sequence[Message]) -> None:
        first, *more = split(messages, BATCH_BYTES) or [[]]
        self.apply(Rewrite(messages=first))
        for batch in more:
            self.apply(Append(messages=batch))

    def apply(self, operation: Operation) -> None:
        match operation:
            case Append(messages=messages):
                self._replace(len(self.messages), 0, messages)
            case Trim(head=head, drop=drop, summary=summary):
                instructions = [message for message in self.messages[head : head + drop] if message.instructs]
                self._replace(head, drop, [*instructions, summary])
            case Rewrite(messages=messages):
                self._replace(0, len(self.messages), messages)
        self.operations.append(operation)
        self.version += 1

    def _replace(self, start: int, count: int, messages: Sequence[Message]) -> None:
        if count:
            self._recorded_bytes = self.recorded_bytes - total_bytes(self.messages[start : start + count])
        self._unmeasured += messages
        self.messages[start : start + count] = messages
        del self._sizes[start:]

    def load(self, messages: Sequence[Message]) -> None:
        """Set the messages of a conversation that was made without them; version and digest stay as given."""
        if self.operations or self.messages:
            raise ValueError("only an empty conversation without operations can be loaded")
        self._replace(0, 0, messages)

    @property
    def sizes(self) -> Sequence[int]:
        """The size of each message in characters (§13.3)."""
        self._sizes += map(message_chars, self.messages[len(self._sizes) :])
        return self._sizes

    @property
    def recorded_bytes(self) -> int:
        """About how many bytes the messages take when they are recorded, uncompressed."""
        self._recorded_bytes += total_bytes(self._unmeasured)
        self._unmeasured.clear()
        return self._recorded_bytes

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
            self._digests = [_link("", _seed_bytes(self.messages))]
        for operation in self.operations[len(self._digests) - 1 :]:
            self._digests.append(_link(self._digests[-1], _operation_bytes(operation)))
        return self._digests[version - self.first_version]

    def since(self, version: int) -> Sequence[Operation]:
        """The operations that led from `version` to now."""
        return self.operations[version - self.first_version :]

    def ref(self, *, record: bool = True) -> ConversationRef:
        """A reference to the conversation as it is now.

        With `record`, the operations count as recorded and the next reference starts behind them.
        Pass False where the reference's bearer leaves no trace of its input in the history.
        """
        reference = ConversationRef(
            base=self._recorded_version,
            version=self.version,
            digest=self.digest,
            operations=list(self.since(self._recorded_version)),
        )
        if record:
            self._recorded_version = self.version
        return reference

    def partial_refs(self, limit_bytes: int) -> Iterator[ConversationRef]:
        """References that hand over pending operations ahead, about `limit_bytes` each, until no more is left than one.

        An operation that is larger by itself is handed over alone.
        """
        while len(self.unrecorded) > 1 and sum(map(operation_bytes, self.unrecorded)) > limit_bytes:
            base, size = self._recorded_version, 0
            for operation in self.unrecorded:
                size += operation_bytes(operation)
                if self._recorded_version > base and size > limit_bytes:
                    break
                self._recorded_version += 1
            yield ConversationRef(
                base=base,
                version=self._recorded_version,
                digest=self._digest_at(self._recorded_version),
                operations=list(
                    self.operations[base - self.first_version : self._recorded_version - self.first_version]
                ),
            )

    @property
    def unrecorded(self) -> Sequence[Operation]:
        """The operations that no reference has handed over yet."""
        return self.since(self._recorded_version)

    def follow(self, reference: ConversationRef) -> None:
        """Bring this copy to the version of `reference`, by its operations.

        Raises `DigestMismatchError` when they do not fit; this copy is then of no more use.
        """
        if not reference.base <= self.version <= reference.version:
            raise DigestMismatchError(
                f"the conversation is at version {self.version}, the operations lead from "
                f"{reference.base} to {reference.version}"
            )
        _ = self.digest  # The seed's can't be taken any more once it has changed.
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
        self.first_version = self._recorded_version = self.version


def operation_bytes(operation: Operation) -> int:
    """About how many bytes the operation takes when it is recorded, uncompressed."""
    return total_bytes([operation.summary] if isinstance(operation, Trim) else operation.messages)
