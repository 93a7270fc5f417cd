"""Keeps what an activity gives within what Temporal can carry."""

from __future__ import annotations

from pydantic import BaseModel

from ..errors import PayloadTooLargeError

MAX_RESULT_BYTES = 1_500_000
"""Temporal refuses payloads of 2 MB; the result travels once more, as a part of the conversation."""


def size_of(value: BaseModel) -> int:
    """The bytes that the value takes when it is recorded, uncompressed."""
    return len(value.__pydantic_serializer__.to_json(value))


def check_size(value: BaseModel, what: str) -> None:
    """Raises `PayloadTooLargeError` when the value is too large to be recorded."""
    size = size_of(value)
    if size > MAX_RESULT_BYTES:
        raise PayloadTooLargeError(
            f"{what} is too large to be recorded: {size} bytes, at most {MAX_RESULT_BYTES} are possible"
        )
