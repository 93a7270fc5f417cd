"""The operations that change a conversation, and the digests that identify what they lead to."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from hashlib import blake2b
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from .exchanged import Exchanged
from .message_sizes import total_bytes
from .messages import Message, TextPart


class Append(Exchanged):
    """Add messages at the end."""

    op: Literal["append"] = "append"
    messages: list[Message]


class Trim(Exchanged):
    """Replace the `drop` messages after the first `head`, except system messages, by `summary` (§13.3)."""

    op: Literal["trim"] = "trim"
    head: int
    drop: int
    summary: Message


class Rewrite(Exchanged):
    """Replace the whole list, as an input guardrail's rewrite does (§13.4)."""

    op: Literal["rewrite"] = "rewrite"
    messages: list[Message]
    is_view: bool = Field(default=False, exclude_if=operator.not_)
    """Whether this only tells what several changes have led to: what was said before stays said."""


class Instruct(Exchanged):
    """Replace the system messages at the beginning, as a session does whose agent has changed."""

    op: Literal["instruct"] = "instruct"
    messages: list[Message]


Operation = Annotated[Append | Trim | Rewrite | Instruct, Field(discriminator="op")]
_OPERATION: TypeAdapter[Append | Trim | Rewrite | Instruct] = TypeAdapter(Operation)


def operation_bytes(operation: Operation) -> int:
    """About how many bytes the operation takes when it is recorded, uncompressed."""
    return total_bytes(messages_of(operation))


def seed_digest(messages: Sequence[Message]) -> str:
    """The digest of a conversation that no operation has changed yet."""
    dumped = [message.model_dump_json(exclude_defaults=True).encode() for message in messages]
    return _link("", b"".join([*dumped, _media_kinds(messages)]))


def next_digest(digest: str, operation: Operation) -> str:
    """The digest after `operation`, of a conversation that had `digest` before it."""
    # Fields that hold their default are left out, so that a field added later changes no digest; an older version,
    # which keeps fields that it does not know, must not be sent them while they hold their default (`exclude_if`).
    dumped = _OPERATION.dump_json(operation, exclude_defaults=True)
    return _link(digest, operation.op.encode() + dumped + _media_kinds(messages_of(operation)))


def count_of_instructions(messages: Sequence[Message]) -> int:
    """How many of the messages are system messages at the beginning."""
    return next((count for count, message in enumerate(messages) if not message.instructs), len(messages))


def messages_of(operation: Operation) -> list[Message]:
    """The messages that the operation brings."""
    return [operation.summary] if isinstance(operation, Trim) else operation.messages


def _link(digest: str, data: bytes) -> str:
    return blake2b(data, key=digest.encode(), digest_size=16).hexdigest()


def _media_kinds(messages: Sequence[Message]) -> bytes:
    """What the dumps leave out: the kinds of parts, by which alone an image differs from a file."""
    kinds = [part.kind for message in messages for part in message.parts if not isinstance(part, TextPart)]
    return ",".join(kinds).encode()
