"""Keeps values in Amazon's S3, and in other storages with its protocol."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any
from urllib.parse import quote

from temporalio.contrib.aws.s3driver import S3StorageDriver, S3StorageDriverClient

from ...errors import ConfigurationError
from .cloud import (
    BucketObject,
    CloudDriver,
    NoSuchObjectError,
    NotAccessibleError,
    client_of,
    is_final,
    is_fresh,
)

_GONE = frozenset({"NoSuchKey", "404"})


def s3_driver(bucket: str, prefix: str) -> CloudDriver:
    """Return the driver for one bucket; region, credentials and endpoint come from AWS's own
    environment variables.

    Raises `ConfigurationError` when aioboto3 is not installed.
    """
    if importlib.util.find_spec("aioboto3") is None:
        raise ConfigurationError(
            "Storage in S3 needs a package that is not installed: pip install 'perdure[s3]'"
        )
    client = _Client(prefix, bucket)
    return CloudDriver(S3StorageDriver(client, bucket), client)


class _Client(S3StorageDriverClient):
    """Puts every key under a prefix, and says which objects are gone."""

    def __init__(self, prefix: str, bucket: str) -> None:
        self._prefix, self._bucket = prefix, bucket

    def key_part(self, text: str) -> str:
        """As the SDK's driver does it."""
        return quote(text, safe="!*'()").replace("~", "%7E")

    async def objects(self, prefix: str) -> AsyncIterator[BucketObject]:
        client = await client_of("s3", _s3_client)
        pages = client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=self._prefix + prefix
        )
        async for page in pages:
            for item in page.get("Contents", []):
                yield BucketObject(
                    item["Key"].removeprefix(self._prefix), item["LastModified"].timestamp()
                )

    async def delete(self, key: str) -> None:
        await (await client_of("s3", _s3_client)).delete_object(
            Bucket=self._bucket, Key=self._prefix + key
        )

    async def put_object(self, *, bucket: str, key: str, data: bytes) -> None:
        client = await self._client()
        await client.put_object(bucket=bucket, key=self._prefix + key, data=data)

    async def object_exists(self, *, bucket: str, key: str) -> bool:
        """Return whether it is there and fresh."""
        client = await self._client()
        if not await client.object_exists(bucket=bucket, key=self._prefix + key):
            return False
        found = await (await client_of("s3", _s3_client)).head_object(
            Bucket=bucket, Key=self._prefix + key
        )
        return is_fresh(found["LastModified"])

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
        from temporalio.contrib.aws.s3driver.aioboto3 import new_aioboto3_client

        return new_aioboto3_client(await client_of("s3", _s3_client))


def _s3_client() -> AbstractAsyncContextManager[Any]:
    import aioboto3

    client: AbstractAsyncContextManager[Any] = aioboto3.Session().client("s3")
    return client
