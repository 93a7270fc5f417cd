"""Decodes the values that a history records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from temporalio.api.common.v1 import Payload
from temporalio.client import Client

from ..errors import ConfigurationError

STORED_ELSEWHERE = "TMPRL1105"
"""Marks the SDK's error for a value that is stored outside Temporal, in a storage that the client does not have."""

Value = TypeVar("Value")


async def decode(client: Client, payloads: Iterable[Payload], type_: type[Value]) -> Value:
    """The one value that the payloads hold. Raises `ConfigurationError` when `client` can't reach its storage."""
    try:
        values: list[Any] = await client.data_converter.decode(list(payloads), [type_])
    except RuntimeError as error:
        if STORED_ELSEWHERE not in str(error):
            raise
        raise ConfigurationError(
            "A value of this run is stored outside Temporal, and this process does not know where: set "
            "PERDURE_STORAGE to what it was where the run was started"
        ) from error
    value: Value = values[0]
    return value
