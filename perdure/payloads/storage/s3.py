"""Stores values in S3 by the SDK's driver; needs `pip install 'perdure[s3]'`."""

from __future__ import annotations

import importlib.util
from typing import Any

from temporalio.contrib.aws.s3driver import S3StorageDriver, S3StorageDriverClient

from ...errors import ConfigurationError
from .cloud import CloudDriver, NoSuchObjectError, NotAccessibleError, client_of, is_final

_GONE = frozenset({"NoSuchKey", "404"})


def s3_driver(bucket: str, prefix: str) -> CloudDriver:
    """The driver for one bucket; region, credentials and endpoint come from AWS's own environment variables.

    Raises `ConfigurationError` when aioboto3 is not installed.
    """
    if importlib.util.find_spec("aioboto3") is None:
        raise ConfigurationError("Storage in S3 needs a package that is not installed: pip install 'perdure[s3]'")
    return CloudDriver(S3StorageDriver(_Client(prefix), bucket))


class _Client(S3StorageDriverClient):
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
