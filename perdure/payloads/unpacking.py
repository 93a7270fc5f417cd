"""Decompresses zstd data within bounds: kilobytes can contain gigabytes, readable or not."""

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
"""Payloads that come together and would exceed this weight stay compressed."""
FURTHER_BYTES = 32 * 1024 * 1024
"""Limit after the first values of a workflow task, which have the input of a starting run: messages
follow, which anybody may send.
"""
MAX_SENT_BYTES = 2 * 1024 * 1024
"""Temporal's limit for one value."""
MAX_MESSAGE_BYTES = 8 * 1024 * 1024
"""Limit for the weight of a message's values to a workflow, whose type is unknown."""
SHORT_BYTES = 256
"""A message's value up to this size is read immediately."""
MAX_READ_WEIGHT = 16 * 1024 * 1024
"""Limit for the weight of one workflow task's messages, by `reading_weight_of`: reading them takes
a tenth of a second, on a busy machine several; a task may take two seconds.
"""
COMMA_BYTES = 32
"""Weight of an element of a JSON list or object."""
QUOTE_BYTES = 16
CHECKED_BYTES = 256
"""Additional weight of a part, if the value becomes a model of many parts: pydantic takes 15 to 40
us for each."""
AT_ONCE_BYTES = 256 * 1024
"""Up to this size data is compressed and decompressed directly; more, in a thread."""
BRACKET_BYTES = 64
"""Weight of a JSON list or object of any length: reading a megabyte of them takes half a second."""


def weight_of(payload: Payload) -> int:
    """Return a payload's weight for the limits on size."""
    return payload.ByteSize() + BRACKET_BYTES * (
        payload.data.count(b"[") + payload.data.count(b"{")
    )


def reading_weight_of(payload: Payload, limit: int, part_bytes: int = 0) -> int:
    """Return a payload's weight for the limits on reading time; any value above `limit` once that
    is exceeded.

    Each part of a list or an object adds `part_bytes`.
    """
    size = payload.ByteSize()
    if size > limit:
        return size
    # Strings take no time, though a text may well consist of quotes, brackets and commas.
    data = payload.data.replace(rb"\\", b"").replace(rb"\"", b"")
    weight = size + QUOTE_BYTES * data.count(b'"')
    if weight > limit:
        return weight
    outside = b"".join(data.split(b'"')[::2])
    brackets = outside.count(b"[") + outside.count(b"{")
    return (
        weight
        + (BRACKET_BYTES + part_bytes) * brackets
        + (COMMA_BYTES + part_bytes) * outside.count(b",")
    )


def require_readable_soon(payloads: Sequence[Payload]) -> None:
    """Raises `PayloadTooLargeError` for values that would take long to read."""
    if (weight := sum(map(weight_of, payloads))) > MAX_MESSAGE_BYTES:
        raise PayloadTooLargeError(
            f"a message to a workflow weighs {weight} bytes unpacked, at most {MAX_MESSAGE_BYTES} "
            "are read: send less"
        )


@dataclass
class Budget:
    """The remaining bytes that may be decompressed."""

    left: int = MAX_UNPACKED_BYTES
    is_shared: bool = False
    """Whether it covers all values decoded in the block, one by one."""


BUDGET: ContextVar[Budget | None] = ContextVar("perdure-unpacking", default=None)
"""The budget of a workflow task, which the SDK handles in its own asyncio task, and so in its own
context. Code that decodes values for itself sets a new one.
"""


@contextmanager
def own_budget(*, is_shared: bool = False) -> Iterator[None]:
    """Count values decompressed in the block separately from the workflow task. An existing shared
    budget still applies.
    """
    current = BUDGET.get()
    token = BUDGET.set(current if current and current.is_shared else Budget(is_shared=is_shared))
    try:
        yield
    finally:
        BUDGET.reset(token)


class Unpacking:
    """Decompresses payloads that come together. All decompressed data counts, readable or not."""

    def __init__(self, in_workflow: bool) -> None:
        """`in_workflow` for values of a workflow task other than the results of the run's own
        activities.
        """
        found = BUDGET.get()
        if found is not None and not (in_workflow or found.is_shared):
            found = None
        self._budget = found or Budget()
        self._in_workflow = in_workflow
        if in_workflow and found is None:
            BUDGET.set(self._budget)

    async def unpack(self, data: bytes) -> Payload:
        """Return the payload in the data. Raises `ZstdError` or `DecodeError` if it has none that
        may be read.
        """
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
        """Lower the budget after these payloads: in a workflow task, messages follow."""
        if self._in_workflow:
            self._budget.left = min(self._budget.left, FURTHER_BYTES)


def _unpack(data: bytes, limit: int) -> Payload:
    return Payload.FromString(zstandard.ZstdDecompressor().decompress(data, max_output_size=limit))
