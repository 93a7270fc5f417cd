"""Stores values in Google Cloud Storage by the SDK's driver; needs `pip install 'perdure[gcs]'`."""

from __future__ import annotations

import importlib.util
from typing import Any

from temporalio.contrib.gcp.gcsdriver import GCSStorageDriver, GCSStorageDriverClient

from ...errors import ConfigurationError
from .cloud import CloudDriver, NoSuchObjectError, NotAccessibleError, client_of, is_final


def gcs_driver(bucket: str, prefix: str) -> CloudDriver:
    """The driver for one bucket; credentials are Google's Application Default Credentials.

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
