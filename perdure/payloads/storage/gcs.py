"""Keeps values in Google Cloud Storage."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any
from urllib.parse import quote

from temporalio.contrib.gcp.gcsdriver import GCSStorageDriver, GCSStorageDriverClient

from ...errors import ConfigurationError
from ...json_types import JsonObject
from .cloud import (
    BucketObject,
    CloudDriver,
    NoSuchObjectError,
    NotAccessibleError,
    client_of,
    is_final,
    is_fresh,
)

_UNSAFE = frozenset('#[]*?:"<>|/%')


def gcs_driver(bucket: str, prefix: str) -> CloudDriver:
    """Return the driver for one bucket; credentials are Google's Application Default Credentials.

    Raises `ConfigurationError` when gcloud-aio-storage is not installed.
    """
    if (
        importlib.util.find_spec("gcloud") is None
        or importlib.util.find_spec("gcloud.aio.storage") is None
    ):
        raise ConfigurationError(
            "Storage in Google Cloud needs a package that is not installed: pip install "
            "'perdure[gcs]'"
        )
    client = _Client(prefix, bucket)
    return CloudDriver(GCSStorageDriver(client, bucket), client)


class _Client(GCSStorageDriverClient):
    """Puts every object under a prefix, and says which objects are gone."""

    def __init__(self, prefix: str, bucket: str) -> None:
        self._prefix, self._bucket = prefix, bucket

    def key_part(self, text: str) -> str:
        """As the SDK's driver does it."""
        if text in (".", ".."):
            return text.replace(".", "%2E")
        return "".join(
            quote(each, safe="") if each in _UNSAFE or _is_control(each) else each for each in text
        )

    async def objects(self, prefix: str) -> AsyncIterator[BucketObject]:
        storage = await client_of("gcs", _gcs_client)
        page: JsonObject = {"nextPageToken": ""}
        while (token := page.get("nextPageToken")) is not None:
            more = {"pageToken": token} if token else {}
            page = await storage.list_objects(
                self._bucket, params={"prefix": self._prefix + prefix, **more}
            )
            for item in page.get("items", []):
                modified = datetime.fromisoformat(item["updated"]).timestamp()
                yield BucketObject(item["name"].removeprefix(self._prefix), modified)

    async def delete(self, key: str) -> None:
        from aiohttp import ClientResponseError

        try:
            await (await client_of("gcs", _gcs_client)).delete(self._bucket, self._prefix + key)
        except ClientResponseError as error:
            if error.status != 404:
                raise

    async def put_object(self, *, bucket: str, object_name: str, data: bytes) -> None:
        client = await self._client()
        await client.put_object(bucket=bucket, object_name=self._prefix + object_name, data=data)

    async def object_exists(self, *, bucket: str, object_name: str) -> bool:
        """Return whether it is there and fresh."""
        client = await self._client()
        exists: bool = await client.object_exists(
            bucket=bucket, object_name=self._prefix + object_name
        )
        if not exists:
            return False
        found = await (await client_of("gcs", _gcs_client)).download_metadata(
            bucket, self._prefix + object_name
        )
        return "updated" not in found or is_fresh(datetime.fromisoformat(found["updated"]))

    async def get_object(self, *, bucket: str, object_name: str) -> bytes:
        from aiohttp import ClientResponseError

        client = await self._client()
        try:
            data: bytes = await client.get_object(
                bucket=bucket, object_name=self._prefix + object_name
            )
        except ClientResponseError as error:
            if error.status == 404:
                raise NoSuchObjectError("the object is gone") from error
            if is_final(error.status):
                raise NotAccessibleError(f"HTTP {error.status}") from error
            raise
        return data

    async def _client(self) -> Any:
        from temporalio.contrib.gcp.gcsdriver.gcloud_aio import new_gcloud_aio_client

        return new_gcloud_aio_client(await client_of("gcs", _gcs_client))


def _is_control(character: str) -> bool:
    return ord(character) <= 0x1F or 0x7F <= ord(character) <= 0x9F


def _gcs_client() -> AbstractAsyncContextManager[Any]:
    from gcloud.aio.storage import Storage

    client: AbstractAsyncContextManager[Any] = Storage()
    return client
