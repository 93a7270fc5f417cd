"""Stands for a storage that this process was not told about."""

from __future__ import annotations

from collections.abc import Sequence

from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)

from ..errors import ConfigurationError


class Elsewhere(StorageDriver):
    """Stores nothing; says how to configure the storage when a value is met that somebody else has put there.

    The error does not end a run: its worker may be started again with the right configuration.
    """

    def __init__(self, name: str, setting: str) -> None:
        self._name = name
        self._setting = setting

    def name(self) -> str:
        return self._name

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
        raise self._not_configured()

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        raise self._not_configured()

    def _not_configured(self) -> ConfigurationError:
        return ConfigurationError(
            f"A value of this run was stored outside Temporal ({self._name}), and this process does not know where: "
            f"set {self._setting}, as it was where the run was started"
        )
