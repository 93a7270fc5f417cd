"""Stores values in a bucket with the SDK's drivers, and classifies their errors."""

from __future__ import annotations

import asyncio
import contextvars
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from datetime import datetime
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote
from weakref import WeakKeyDictionary

from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)
from temporalio.exceptions import ApplicationError

from ...errors import ConfigurationError
from ...text import one_line
from .files import NOT_STORED, StoredValue, lost_error


class NoSuchObjectError(Exception):
    """An object is not in the bucket; raised by the clients of cloud storage."""


class NotAccessibleError(Exception):
    """This process may not read an object, or its name is not valid; raised by the clients of cloud
    storage.
    """


PAUSES = (0.5, 1.5)
"""Seconds before a refused value is stored again."""
FRESH_SECONDS = 600.0
"""An older object is written again with its value: removals go by that time."""
_KEY = re.compile(
    r"v0/ns/[^/]+/(?:wt/[^/]+/wi/(?P<id>[^/]+)/ri/[^/]+/|.*/)?d/sha256/(?P<digest>[0-9a-f]{64})"
)
"""The SDK's keys: v0/ns/NAMESPACE/wt/WORKFLOW_TYPE/wi/WORKFLOW_ID/ri/RUN_ID/d/sha256/DIGEST, or
without the part from `wt` on for a value that belongs to no workflow."""
TYPES = ("perdure.AgentRun", "perdure.Session", "null")
"""The workflow types in the keys of a run's values; messages to a run do not have its type."""


class BucketObject(NamedTuple):
    """An object of a bucket."""

    key: str
    modified: float


class Bucket(Protocol):
    """Lists and deletes objects; keys are those of the SDK, without the prefix."""

    def key_part(self, text: str) -> str:
        """Return the text as a part of a key."""

    def objects(self, prefix: str) -> AsyncIterator[BucketObject]:
        """Yield the objects whose keys begin with the prefix."""

    async def delete(self, key: str) -> None:
        """Delete an object, if it exists."""


class CloudDriver(StorageDriver):
    """One of the SDK's drivers, whose errors end a run only when its value is lost."""

    def __init__(self, driver: StorageDriver, bucket: Bucket) -> None:
        self._driver = driver
        self._bucket = bucket

    def name(self) -> str:
        return self._driver.name()

    def type(self) -> str:
        return self._driver.type()

    async def store(
        self, context: StorageDriverStoreContext, payloads: Sequence[Payload]
    ) -> list[StorageDriverClaim]:
        """Store the values. Raises an `ApplicationError` if the bucket still refuses them after
        `PAUSES`, so that the value's tool is not executed again.
        """
        for pause in PAUSES:
            try:
                return await self._driver.store(context, payloads)
            except RuntimeError:
                await asyncio.sleep(pause)
        try:
            return await self._driver.store(context, payloads)
        except RuntimeError as error:
            why = one_line(str(error.__cause__ or error), 300)
            text = f"a value can't be stored in the bucket (PERDURE_STORAGE): {why}"
            raise ApplicationError(text, type=NOT_STORED, non_retryable=True) from error

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        """Return the values. Raises `lost_error` for a missing or damaged one, `ConfigurationError`
        for one that this process can't have, and `OSError` for an error that may pass.
        """
        try:
            return await self._driver.retrieve(context, claims)
        except (
            ValueError,
            LookupError,
            DecodeError,
        ) as error:  # The reference is not one of the driver's.
            raise lost_error(str(error)) from error
        except RuntimeError as error:
            if isinstance(error.__cause__, NoSuchObjectError):
                raise lost_error(f"{error}: {error.__cause__}") from error
            if isinstance(error.__cause__, NotAccessibleError):
                raise ConfigurationError(f"{error}: {error.__cause__}") from error
            raise OSError(f"{error}: {error.__cause__}") from error

    def names(self) -> Iterable[str]:
        return (self.name(),)

    def owner(self, workflow_id: str) -> str:
        return workflow_id

    async def values(
        self, namespace: str, workflow_id: str | None = None
    ) -> AsyncIterator[StoredValue]:
        """Raises the errors of the cloud's client."""
        key_part = self._bucket.key_part
        prefix = f"v0/ns/{key_part(namespace)}/"
        prefixes = (
            [f"{prefix}wt/{key_part(type)}/wi/{key_part(workflow_id)}/ri/" for type in TYPES]
            if workflow_id
            else [prefix]
        )
        for each in prefixes:
            async for held in self._bucket.objects(each):
                if found := _KEY.fullmatch(held.key):
                    yield StoredValue(
                        held.key, found["digest"], unquote(found["id"] or ""), held.modified
                    )

    async def remove(self, value: StoredValue) -> bool:
        """Raises the errors of the cloud's client."""
        await self._bucket.delete(value.key)
        return True


MAY_PASS = frozenset({408, 425, 429})
"""HTTP's statuses below 500 after which the same request may succeed."""


def is_final(status: int) -> bool:
    """Return whether a repeated request would have the same answer."""
    return 400 <= status < 500 and status not in MAY_PASS


_opened: WeakKeyDictionary[
    asyncio.AbstractEventLoop, dict[str, asyncio.Task[tuple[Any, AsyncExitStack]]]
]
_opened = WeakKeyDictionary()


async def client_of(kind: str, open_client: Callable[[], AbstractAsyncContextManager[Any]]) -> Any:
    """Return the running event loop's shared client of that kind, opened by the first call.

    Raises the errors of opening it; then the next call tries again.
    """
    clients = _opened.setdefault(asyncio.get_running_loop(), {})
    if kind not in clients:
        # In its own context: the client is not part of the first call.
        clients[kind] = asyncio.get_running_loop().create_task(
            _open(open_client), context=contextvars.Context()
        )
    opening = clients[kind]
    try:
        client, _ = await asyncio.shield(opening)
    except BaseException:
        if opening.done():
            clients.pop(kind, None)
        raise
    return client


async def close_storage() -> None:
    """Close the clients that the running event loop has opened; the next use opens a new one."""
    for opening in _opened.pop(asyncio.get_running_loop(), {}).values():
        _, resources = await opening
        await resources.aclose()


async def _open(
    open_client: Callable[[], AbstractAsyncContextManager[Any]],
) -> tuple[Any, AsyncExitStack]:
    resources = AsyncExitStack()
    return await resources.enter_async_context(open_client()), resources


def is_fresh(modified: datetime) -> bool:
    """Return whether an object need not be stored again with its value."""
    return time.time() - modified.timestamp() < FRESH_SECONDS
