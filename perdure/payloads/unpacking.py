"""Unpacks what zstd has compressed, within bounds: kilobytes can hold gigabytes, readable or not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import zstandard
from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload

from ..errors import PayloadTooLargeError

MAX_UNPACKED_BYTES = 64 * 1024 * 1024
"""Payloads that come together and would weigh more are passed on as they are."""
FURTHER_BYTES = 32 * 1024 * 1024
"""What may be unpacked after the first values of one workflow task, which have the input of a run that begins: after
them come messages, which anybody may send."""
MAX_SENT_BYTES = 2 * 1024 * 1024
"""For one value as Temporal takes it."""
MAX_MESSAGE_BYTES = 8 * 1024 * 1024
"""What the values of a message to a workflow may weigh, whose type is not known."""
SHORT_BYTES = 256
"""A value of a message that is no longer is read as soon as it comes."""
MAX_READ_WEIGHT = 16 * 1024 * 1024
"""What the messages of one workflow task may weigh as `reading_weight_of` says: to read them takes a tenth of a second,
on a busy machine several; a task may take two seconds."""
COMMA_BYTES = 32
"""What an element of a list or an object of JSON weighs."""
QUOTE_BYTES = 16
CHECKED_BYTES = 256
"""What a part weighs besides, where the value is to be a model of many parts: pydantic takes 15 to 40 us for each."""
AT_ONCE_BYTES = 256 * 1024
"""Up to this size data is unpacked where it is; more is unpacked in a thread."""
BRACKET_BYTES = 64
"""What a list or an object of JSON weighs, however short it is: to read a megabyte of them takes half a second."""


def weight_of(payload: Payload) -> int:
    """Return what a payload counts where the sizes of payloads are bounded."""
    return payload.ByteSize() + BRACKET_BYTES * (payload.data.count(b"[") + payload.data.count(b"{"))


def reading_weight_of(payload: Payload, limit: int, part_bytes: int = 0) -> int:
    """Return what a payload counts where the time to read its JSON is bounded: anything above `limit` if that is
    exceeded.

    `part_bytes` come to this for each part of a list or an object.
    """
    size = payload.ByteSize()
    if size > limit:
        return size
    # What is in strings takes no time: a text may well consist of quotes, brackets and commas.
    data = payload.data.replace(rb"\\", b"").replace(rb"\"", b"")
    weight = size + QUOTE_BYTES * data.count(b'"')
    if weight > limit:
        return weight
    outside = b"".join(data.split(b'"')[::2])
    brackets = outside.count(b"[") + outside.count(b"{")
    return weight + (BRACKET_BYTES + part_bytes) * brackets + (COMMA_BYTES + part_bytes) * outside.count(b",")


def require_readable_soon(payloads: Sequence[Payload]) -> None:
    """Raises `PayloadTooLargeError` for values that would take long to read."""
    if (weight := sum(map(weight_of, payloads))) > MAX_MESSAGE_BYTES:
        raise PayloadTooLargeError(
            f"a message to a workflow weighs {weight} bytes unpacked, at most {MAX_MESSAGE_BYTES} are read: send less"
        )


@dataclass
class Budget:
    """How much may still be unpacked."""

    left: int = MAX_UNPACKED_BYTES
    is_shared: bool = False
    """Whether it is for all that is decoded meanwhile, value by value."""


BUDGET: ContextVar[Budget | None] = ContextVar("perdure-unpacking", default=None)
"""That of a workflow task, which the SDK handles in an asyncio task, and so in a context, of its own. Whoever decodes
values for itself sets a new one."""


@contextmanager
def own_budget(*, is_shared: bool = False) -> Iterator[None]:
    """Count what the block unpacks as no part of a workflow task. A budget that is shared already holds for it
    too.
    """
    current = BUDGET.get()
    token = BUDGET.set(current if current and current.is_shared else Budget(is_shared=is_shared))
    try:
        yield
    finally:
        BUDGET.reset(token)


class Unpacking:
    """Unpacks payloads that come together. Whatever is unpacked counts, whether it can then be read or not."""

    def __init__(self, in_workflow: bool) -> None:
        """`in_workflow` for what a workflow task may contain beside the results of the run's own activities."""
        found = BUDGET.get()
        if found is not None and not (in_workflow or found.is_shared):
            found = None
        self._budget = found or Budget()
        self._in_workflow = in_workflow
        if in_workflow and found is None:
            BUDGET.set(self._budget)

    async def unpack(self, data: bytes) -> Payload:
        """Payload that the data holds. Raises `ZstdError` or `DecodeError` when it holds none that may be read."""
        left, size = self._budget.left, zstandard.frame_content_size(data)
        if size > left or left <= 0:
            raise zstandard.ZstdError(f"{size} bytes unpacked, at most {left} are possible")
        self._budget.left -= size if size >= 0 else left
        at_once = 0 <= size <= AT_ONCE_BYTES
        payload = _unpack(data, left) if at_once else await asyncio.to_thread(_unpack, data, left)
        if (weight := weight_of(payload)) > left:
            raise DecodeError(f"the payload weighs {weight} bytes, at most {left} are possible")
        self._budget.left = left - weight
        return payload

    def end(self) -> None:
        """What comes after these payloads, in a workflow task, are messages."""
        if self._in_workflow:
            self._budget.left = min(self._budget.left, FURTHER_BYTES)


def _unpack(data: bytes, limit: int) -> Payload:
    return Payload.FromString(zstandard.ZstdDecompressor().decompress(data, max_output_size=limit))
