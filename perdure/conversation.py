"""The conversation of a run, the same pure class everywhere: the operations that change it,
digests, sizes.

A run records each message once or twice, never once per model call. The workflow changes its
`Conversation` by operations and gives each activity a `ConversationRef`: the version that the
activity needs, and only the operations that no earlier reference has recorded. A holder of the
conversation at `base` applies the operations and compares the digest; any other reader takes them
from the run's history.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from json import dumps
from typing import Annotated, Literal, Protocol

from pydantic import FailFast, Field, TypeAdapter
from pydantic_core import PydanticSerializationError, to_json

from .messages import Exchanged, Message, TextPart

_RECORDED_FRAME = 64
"""The size of a recorded message or part besides its content, in bytes."""

_MEMORY_FRAME = 4000
"""The memory of a parsed message besides its text, in bytes, including its serialised forms for the
provider."""


class Measured(Protocol):
    """A conversation that knows its size."""

    messages: list[Message]

    @property
    def recorded_bytes(self) -> int: ...


def conversation_bytes(conversation: Measured) -> int:
    """Return the approximate memory that the conversation takes in a worker's cache, in bytes."""
    return 2 * conversation.recorded_bytes + _MEMORY_FRAME * len(conversation.messages)


def message_chars(message: Message) -> int:
    """Return the size of one message in characters, as §13.3 estimates it."""
    size = len(message.role) + 4
    for part in message.parts:
        size += len(part.value) if part.kind == "text" else 200
    if calls := message.metadata.get("tool_calls"):
        size += sum(_call_chars(call) for call in calls) + 2 * len(calls)
    return size


def _call_chars(call: dict[str, object]) -> int:
    """Return the length of a tool call's JSON as `json.dumps` writes it, without the punctuation of
    the list.
    """
    return len(dumps(call))


def recorded_bytes(message: Message) -> int:
    """Return the approximate size of the recorded message, uncompressed, in bytes. Never raises."""
    size = _RECORDED_FRAME
    for part in message.parts:
        size += _RECORDED_FRAME + _utf8_bytes(part.value if part.kind == "text" else part.source)
    return size + (_json_bytes(message.metadata) if message.metadata else 0)


def _json_bytes(value: object) -> int:
    try:
        return len(to_json(value, fallback=str))
    except PydanticSerializationError:
        # Text that is not valid Unicode: only `json` can write it.
        return len(dumps(value, default=str))


def _utf8_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def total_bytes(messages: Iterable[Message]) -> int:
    """Return the approximate size of the recorded messages, uncompressed, in bytes."""
    return sum(map(recorded_bytes, messages))


def batches(messages: Sequence[Message], limit_bytes: int) -> list[list[Message]]:
    """Return the messages in batches of at most `limit_bytes` as recorded; a larger message is a
    batch of its own.
    """
    found: list[list[Message]] = []
    size = 0
    for message in messages:
        own = recorded_bytes(message)
        if not found or size + own > limit_bytes:
            found.append([])
            size = 0
        found[-1].append(message)
        size += own
    return found


_Messages = Annotated[list[Message], FailFast()]
"""Untrusted senders may send operations: reporting each of a hundred thousand errors would take
seconds."""


class Append(Exchanged):
    """Add messages at the end."""

    op: Literal["append"] = "append"
    messages: _Messages


class Trim(Exchanged):
    """Replace the `drop` messages after the first `head`, except system messages, by `summary`
    (§13.3).
    """

    op: Literal["trim"] = "trim"
    head: int
    drop: int
    summary: Message


class Rewrite(Exchanged):
    """Replace the whole list, as an input guardrail's rewrite does (§13.4)."""

    op: Literal["rewrite"] = "rewrite"
    messages: _Messages


class Instruct(Exchanged):
    """Replace the system messages at the beginning, as a session does whose agent has changed."""

    op: Literal["instruct"] = "instruct"
    messages: _Messages


Operation = Annotated[Append | Trim | Rewrite | Instruct, Field(discriminator="op")]
_OPERATION: TypeAdapter[Append | Trim | Rewrite | Instruct] = TypeAdapter(Operation)


def operation_bytes(operation: Operation) -> int:
    """Return the approximate size of the recorded operation, uncompressed, in bytes."""
    return total_bytes(messages_of(operation))


def seed_digest(messages: Sequence[Message]) -> str:
    """Return the digest of a conversation that no operation has changed yet."""
    dumped = [message.model_dump_json(exclude_defaults=True).encode() for message in messages]
    return _link("", b"".join([*dumped, _media_kinds(messages)]))


def next_digest(digest: str, operation: Operation) -> str:
    """Return the digest after `operation`, of a conversation that had `digest` before it."""
    # Fields with their default are left out, so that a field added later changes no digest; an
    # older version, which keeps unknown fields, must not receive them while they hold their default
    # (`exclude_if`).
    dumped = _OPERATION.dump_json(operation, exclude_defaults=True)
    return _link(digest, operation.op.encode() + dumped + _media_kinds(messages_of(operation)))


def count_of_instructions(messages: Sequence[Message]) -> int:
    """Return how many of the messages are system messages at the beginning."""
    return next(
        (count for count, message in enumerate(messages) if not message.instructs), len(messages)
    )


def messages_of(operation: Operation) -> list[Message]:
    """Return the messages that the operation adds."""
    return [operation.summary] if isinstance(operation, Trim) else operation.messages


def _link(digest: str, data: bytes) -> str:
    return blake2b(data, key=digest.encode(), digest_size=16).hexdigest()


def _media_kinds(messages: Sequence[Message]) -> bytes:
    """Return the data that the dumps omit: the kinds of parts, which alone distinguish an image
    from a file.
    """
    kinds = [
        part.kind
        for message in messages
        for part in message.parts
        if not isinstance(part, TextPart)
    ]
    return ",".join(kinds).encode()


BATCH_BYTES = 256 * 1024
"""The limit of one operation, unless a single message is larger: each one fits into a payload."""


class ConversationRef(Exchanged):
    """A reference that travels instead of a conversation."""

    base: int
    """The version that `operations` start from."""
    version: int
    digest: str
    """Of the conversation at `version`: a chain over the seed and every operation since."""
    operations: Annotated[list[Operation], FailFast()] = []


class DigestMismatchError(Exception):
    """The operations do not lead to the conversation that the workflow referred to."""


class Conversation:
    """A list of messages with a version, changed only by operations.

    Each operation raises `version` by one. Only this class may change `messages`. Only a
    conversation made by `Conversation.recorded` has a digest, and so can give references and follow
    them.
    """

    def __init__(self, messages: Iterable[Message] = (), *, version: int = 0) -> None:
        self.messages: list[Message] = list(messages)
        self.version = version
        self.operations: list[Operation] = []
        """Every operation applied to this object; the first one was applied at `first_version`."""
        self.first_version = version
        self._digests: list[str] = []
        """The digest at `first_version` and after each operation, up to the last one requested; []
        without digests."""
        self._recorded_version = version
        self._sizes: list[int] = []
        """The sizes of the first messages, up to the last one requested."""
        self._recorded_bytes = 0
        """Of all messages but `_unmeasured`."""
        self._unmeasured = list(self.messages)

    @classmethod
    def recorded(
        cls, messages: Iterable[Message] = (), *, version: int = 0, digest: str | None = None
    ) -> Conversation:
        """Return a conversation that a run records, or that follows one.

        `digest` is the digest at `version`; None computes it from the messages, as the seed of the
        conversation.
        """
        conversation = cls(messages, version=version)
        conversation._digests.append(digest or seed_digest(conversation.messages))
        return conversation

    def append(self, messages: Sequence[Message]) -> None:
        """Add messages at the end, in operations of at most `BATCH_BYTES`."""
        for batch in batches(messages, BATCH_BYTES):
            self.apply(Append(messages=batch))

    def trim(self, head: int, drop: int, summary: Message) -> None:
        """Replace the `drop` messages after the first `head`, except system messages, by
        `summary`.
        """
        self.apply(Trim(head=head, drop=drop, summary=summary))

    def rewrite(self, messages: Sequence[Message]) -> None:
        """Replace all messages: one `Rewrite`, then `Append`s, each of at most `BATCH_BYTES`."""
        first, *more = batches(messages, BATCH_BYTES) or [[]]
        self.apply(Rewrite(messages=first))
        for batch in more:
            self.apply(Append(messages=batch))

    def apply(self, operation: Operation) -> None:
        """Change the messages by one operation."""
        match operation:
            case Append(messages=messages):
                self._replace(len(self.messages), 0, messages)
            case Trim(head=head, drop=drop, summary=summary):
                instructions = [
                    message for message in self.messages[head : head + drop] if message.instructs
                ]
                self._replace(head, drop, [*instructions, summary])
            case Rewrite(messages=messages):
                self._replace(0, len(self.messages), messages)
            case Instruct(messages=messages):
                self._replace(0, count_of_instructions(self.messages), messages)
        self.operations.append(operation)
        self.version += 1

    def _replace(self, start: int, count: int, messages: Sequence[Message]) -> None:
        if count:
            self._recorded_bytes = self.recorded_bytes - total_bytes(
                self.messages[start : start + count]
            )
        self._unmeasured += messages
        self.messages[start : start + count] = messages
        del self._sizes[start:]

    def load(self, messages: Sequence[Message]) -> None:
        """Set the messages of a conversation that was made without them; version and digest stay as
        they are.

        Raises `ValueError` if the conversation has messages or operations.
        """
        if self.operations or self.messages:
            raise ValueError("only an empty conversation without operations can be loaded")
        self._replace(0, 0, messages)

    @property
    def sizes(self) -> Sequence[int]:
        """Size of each message in characters (§13.3)."""
        self._sizes += map(message_chars, self.messages[len(self._sizes) :])
        return self._sizes

    @property
    def recorded_bytes(self) -> int:
        """The approximate size of the recorded messages, uncompressed, in bytes."""
        self._recorded_bytes += total_bytes(self._unmeasured)
        self._unmeasured.clear()
        return self._recorded_bytes

    @property
    def digest(self) -> str:
        """Identifies the seed and every operation since; equal digests mean equal conversations.

        Raises `ValueError` for a conversation that was not made by `Conversation.recorded`.
        """
        return self._digest_at(self.version)

    def _digest_at(self, version: int) -> str:
        if not self._digests:
            raise ValueError(
                "this conversation has no digest: make it with Conversation.recorded(…)"
            )
        for operation in self.operations[len(self._digests) - 1 :]:
            self._digests.append(next_digest(self._digests[-1], operation))
        return self._digests[version - self.first_version]

    def since(self, version: int) -> Sequence[Operation]:
        """Return the operations from `version` to now."""
        return self.operations[version - self.first_version :]

    @property
    def unrecorded_operations(self) -> Sequence[Operation]:
        """Operations that no reference has recorded yet."""
        return self.since(self._recorded_version)

    def ref(self, *, record: bool = True) -> ConversationRef:
        """Return a reference to the present conversation, with the operations that are not recorded
        yet.

        They count as recorded from now on, unless `record` is False: pass it if the history will
        not hold the reference, as in the input of a local activity. Raises `ValueError` without a
        digest.
        """
        reference = self._reference(self.version)
        if record:
            self._recorded_version = self.version
        return reference

    def partial_refs(self, limit_bytes: int) -> Iterator[ConversationRef]:
        """Yield references that record operations in parts of about `limit_bytes`, until the rest
        fits into `ref`.

        An operation that is larger than the limit is a part of its own. Raises `ValueError` without
        a digest.
        """
        while (
            len(new := self.unrecorded_operations) > 1
            and sum(map(operation_bytes, new)) > limit_bytes
        ):
            reference = self._reference(self._recorded_version + _count_within(new, limit_bytes))
            self._recorded_version = reference.version
            yield reference

    def _reference(self, version: int) -> ConversationRef:
        base = self._recorded_version
        operations = self.operations[base - self.first_version : version - self.first_version]
        return ConversationRef(
            base=base, version=version, digest=self._digest_at(version), operations=operations
        )

    def follow(self, reference: ConversationRef) -> None:
        """Bring this copy to the version of `reference`, by its operations.

        Raises `DigestMismatchError` if they do not fit; this copy is then useless. Raises
        `ValueError` without a digest.
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

    def catches_up(self, reference: ConversationRef) -> bool:
        """Follow the reference, and drop the operations; return False if they do not fit, and this
        copy is useless.
        """
        try:
            self.follow(reference)
        except DigestMismatchError:
            return False
        self.forget_operations()
        return True

    def forget_operations(self) -> None:
        """Drop the log of past operations, for holders that only need the present.

        Raises `ValueError` without a digest.
        """
        self._digests = [self.digest]
        self.operations.clear()
        self.first_version = self._recorded_version = self.version


def _count_within(operations: Sequence[Operation], limit_bytes: int) -> int:
    """Return how many of the first operations take at most `limit_bytes` together; at least one."""
    size = operation_bytes(operations[0])
    for count, operation in enumerate(operations[1:], 1):
        size += operation_bytes(operation)
        if size > limit_bytes:
            return count
    return len(operations)
