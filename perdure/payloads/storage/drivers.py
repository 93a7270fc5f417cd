"""Opens the storage that a URL names, by which clients and workers agree on one: a folder, GCS or S3."""

from __future__ import annotations

import asyncio
import contextvars
import importlib.util
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit
from weakref import WeakKeyDictionary

from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.contrib.aws.s3driver import S3StorageDriver, S3StorageDriverClient
from temporalio.contrib.gcp.gcsdriver import GCSStorageDriver, GCSStorageDriverClient
from temporalio.converter import (
    ExternalStorage,
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)
from temporalio.exceptions import ApplicationError

from ...errors import ConfigurationError
from .files import Elsewhere, FileDriver, LostValues, lost_error

VARIABLE = "PERDURE_STORAGE"
"""The environment variable that has the URL."""
STORE_FROM_BYTES = 256 * 1024
"""Values of this size and more, after compression, are stored; smaller ones stay in Temporal's history."""

DRIVERS = {
    FileDriver.NAME: "file:///folder",
    "aws.s3driver": "s3://bucket/prefix",
    "gcp.gcsdriver": "gs://bucket/prefix",
}
"""The name that histories have for each driver, and the form of the URL that chooses it."""


def storage_from_environment() -> ExternalStorage | None:
    """Storage that `PERDURE_STORAGE` names; None when it is unset or empty. Raises as `open_storage` does."""
    url = os.environ.get(VARIABLE)
    return open_storage(url) if url else None


def open_storage(url: str) -> ExternalStorage:
    """Return the storage at `file:///folder`, `s3://bucket/prefix` or `gs://bucket/prefix`. Contacts nothing yet.

    It stores by that URL's driver only, and says which URL is needed for a value that another one stored.
    Raises `ConfigurationError` for any other URL, and for a package that is not installed.
    """
    chosen = _driver(url)
    others = [Elsewhere(name, form) for name, form in DRIVERS.items() if name != chosen.name()]
    return ExternalStorage(
        drivers=[chosen, *others],
        driver_selector=lambda context, payload: chosen,
        payload_size_threshold=STORE_FROM_BYTES,
    )


def _driver(url: str) -> StorageDriver:
    parts = urlsplit(url)
    if parts.scheme == "file":
        return FileDriver(_folder(parts, url))
    if parts.scheme == "s3":
        return s3_driver(*_bucket(parts, url))
    if parts.scheme == "gs":
        return gcs_driver(*_bucket(parts, url))
    raise _wrong(url, f"the scheme is {parts.scheme!r}")


def _folder(parts: SplitResult, url: str) -> Path:
    if parts.netloc not in ("", "localhost"):
        raise _wrong(url, f"{parts.netloc!r} is read as a host; write an absolute folder after three slashes")
    folder = Path(unquote(parts.path))
    if not folder.is_absolute() or folder == Path(folder.anchor):
        raise _wrong(url, "the folder must be absolute, and not the root")
    return folder


def _bucket(parts: SplitResult, url: str) -> tuple[str, str]:
    """Return the bucket, and the prefix, which is empty or ends with a slash."""
    if not parts.hostname or parts.query or parts.fragment:
        raise _wrong(url, "expected a bucket, and a prefix if any")
    prefix = parts.path.strip("/")
    return parts.netloc, f"{prefix}/" if prefix else ""


def _wrong(url: str, reason: str) -> ConfigurationError:
    forms = ", ".join(DRIVERS.values())
    return ConfigurationError(f"{VARIABLE}={url!r} can't be used: {reason}. Expected one of {forms}")


class NoSuchObjectError(Exception):
    """An object is not in the bucket; raised by the clients of cloud storage."""


class NotAccessibleError(Exception):
    """This process may not read an object, or such a one can't be; raised by the clients of cloud storage."""


class CloudDriver(StorageDriver):
    """One of the SDK's drivers, whose errors end a run only when its value is lost."""

    def __init__(self, driver: StorageDriver) -> None:
        self._driver = driver

    def name(self) -> str:
        return self._driver.name()

    def type(self) -> str:
        return self._driver.type()

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
        """Store the values. Raises what the cloud's client raises, which is retried."""
        return await self._driver.store(context, payloads)

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        """Values; one that raises when it is read (`LostValues`) in place of one that is missing or damaged.

        Raises `ConfigurationError` for one that this process can't have, and `OSError` for what may pass.
        """
        try:
            return await self._read(context, claims)
        except ApplicationError as error:
            if len(claims) == 1:
                return [LostValues.instead(error)]
            return [payload for claim in claims for payload in await self.retrieve(context, [claim])]

    async def _read(self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]) -> list[Payload]:
        try:
            return await self._driver.retrieve(context, claims)
        except (ValueError, LookupError, DecodeError) as error:  # The reference is not one of the driver's.
            raise lost_error(str(error)) from error
        except RuntimeError as error:
            if isinstance(error.__cause__, NoSuchObjectError):
                raise lost_error(f"{error}: {error.__cause__}") from error
            if isinstance(error.__cause__, NotAccessibleError):
                raise ConfigurationError(f"{error}: {error.__cause__}") from error
            raise OSError(f"{error}: {error.__cause__}") from error


MAY_PASS = frozenset({408, 425, 429})
"""HTTP's statuses below 500 after which the same request may succeed."""


def is_final(status: int) -> bool:
    """Return whether the same request would have the same answer."""
    return 400 <= status < 500 and status not in MAY_PASS


_opened: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, asyncio.Task[tuple[Any, AsyncExitStack]]]]
_opened = WeakKeyDictionary()


async def client_of(kind: str, open_client: Callable[[], AbstractAsyncContextManager[Any]]) -> Any:
    """Return the running event loop's client of that kind, opened at the first call and shared by all that follow.

    Raises what opening it raises; the next call then tries again.
    """
    clients = _opened.setdefault(asyncio.get_running_loop(), {})
    if kind not in clients:
        # In a context of its own: the client is no part of the call that needs it first.
        clients[kind] = asyncio.get_running_loop().create_task(_open(open_client), context=contextvars.Context())
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


async def _open(open_client: Callable[[], AbstractAsyncContextManager[Any]]) -> tuple[Any, AsyncExitStack]:
    resources = AsyncExitStack()
    return await resources.enter_async_context(open_client()), resources


def gcs_driver(bucket: str, prefix: str) -> CloudDriver:
    """Return the driver for one bucket; credentials are Google's Application Default Credentials.

    Raises `ConfigurationError` when gcloud-aio-storage is not installed.
    """
    if importlib.util.find_spec("gcloud") is None or importlib.util.find_spec("gcloud.aio.storage") is None:
        raise ConfigurationError(
            "Storage in Google Cloud needs a package that is not installed: pip install 'perdure[gcs]'"
        )
    return CloudDriver(GCSStorageDriver(_Client(prefix), bucket))


class _Client(GCSStorageDriverClient):
    """Puts every object under a prefix, and says which objects are gone."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    async def put_object(self, *, bucket: str, object_name: str, data: bytes) -> None:
        client = await self._client()
        await client.put_object(bucket=bucket, object_name=self._prefix + object_name, data=data)

    async def object_exists(self, *, bucket: str, object_name: str) -> bool:
        client = await self._client()
        exists: bool = await client.object_exists(bucket=bucket, object_name=self._prefix + object_name)
        return exists

    async def get_object(self, *, bucket: str, object_name: str) -> bytes:
        from aiohttp import ClientResponseError

        client = await self._client()
        try:
            data: bytes = await client.get_object(bucket=bucket, object_name=self._prefix + object_name)
        except ClientResponseError as error:
            if error.status == 404:
                raise NoSuchObjectError("the object is gone") from error
            if is_final(error.status):
                raise NotAccessibleError(f"HTTP {error.status}") from error
            raise
        return data

    async def _client(self) -> Any:
        from gcloud.aio.storage import Storage
        from temporalio.contrib.gcp.gcsdriver.gcloud_aio import new_gcloud_aio_client

        return new_gcloud_aio_client(await client_of("gcs", Storage))


_GONE = frozenset({"NoSuchKey", "404"})


def s3_driver(bucket: str, prefix: str) -> CloudDriver:
    """Return the driver for one bucket; region, credentials and endpoint come from AWS's own environment variables.

    Raises `ConfigurationError` when aioboto3 is not installed.
    """
    if importlib.util.find_spec("aioboto3") is None:
        raise ConfigurationError("Storage in S3 needs a package that is not installed: pip install 'perdure[s3]'")
    return CloudDriver(S3StorageDriver(_S3Client(prefix), bucket))


class _S3Client(S3StorageDriverClient):
    """Puts every key under a prefix, and says which objects are gone."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    async def put_object(self, *, bucket: str, key: str, data: bytes) -> None:
        client = await self._client()
        await client.put_object(bucket=bucket, key=self._prefix + key, data=data)

    async def object_exists(self, *, bucket: str, key: str) -> bool:
        client = await self._client()
        exists: bool = await client.object_exists(bucket=bucket, key=self._prefix + key)
        return exists

    async def get_object(self, *, bucket: str, key: str) -> bytes:
        from botocore.exceptions import ClientError

        client = await self._client()
        try:
            data: bytes = await client.get_object(bucket=bucket, key=self._prefix + key)
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") in _GONE:
                raise NoSuchObjectError("the object is gone") from error
            if is_final(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)):
                raise NotAccessibleError(str(error)) from error
            raise
        return data

    async def _client(self) -> Any:
        import aioboto3
        from temporalio.contrib.aws.s3driver.aioboto3 import new_aioboto3_client

        return new_aioboto3_client(await client_of("s3", lambda: aioboto3.Session().client("s3")))
