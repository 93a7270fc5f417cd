"""Tells a value that is lost from a storage that can't be reached: only the latter may pass."""

from __future__ import annotations

from collections.abc import Sequence

from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)

from .lost import lost


class NoSuchObjectError(Exception):
    """Raised by the clients of cloud storage for an object that is not there."""


class CarefulDriver(StorageDriver):
    """One of the SDK's drivers, with its errors told apart."""

    def __init__(self, driver: StorageDriver) -> None:
        self._driver = driver

    def name(self) -> str:
        return self._driver.name()

    def type(self) -> str:
        return self._driver.type()

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
        return await self._driver.store(context, payloads)

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        """The values. Raises an `ApplicationError` of type `storage` for one that is missing or damaged."""
        try:
            return await self._driver.retrieve(context, claims)
        except ValueError as error:
            raise lost(str(error)) from error
        except RuntimeError as error:
            if isinstance(error.__cause__, NoSuchObjectError):
                raise lost(f"{error}: {error.__cause__}") from error
            raise
