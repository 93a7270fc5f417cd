"""Values that can't be read: lost for good, or stored where this process does not look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    EncodingPayloadConverter,
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)
from temporalio.exceptions import ApplicationError

from ...errors import ConfigurationError

STORAGE_ERROR = "storage"
"""Error type: a value that was stored outside Temporal is missing or damaged."""


def lost(message: str, type: str = STORAGE_ERROR) -> ApplicationError:
    """The error for a lost value. It ends the run; any other one would be retried for ever by a workflow task."""
    return ApplicationError(message, type=type, non_retryable=True)


class LostValues(EncodingPayloadConverter):
    """Raises the error for a lost value when the value is read, and not before.

    All values of a workflow task are fetched at once, those of signals too, which anybody may send. Whoever reads such
    a signal drops it; where the value is the run's own, the error ends the run.
    """

    ENCODING = "perdure/lost"

    @property
    def encoding(self) -> str:
        return self.ENCODING

    def to_payload(self, value: Any) -> None:
        """None: no value is written so."""

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        """Raises an `ApplicationError`, of type `storage` unless the value was lost in another way."""
        kind = payload.metadata.get("type", STORAGE_ERROR.encode())
        raise lost(payload.data.decode(errors="replace"), kind.decode(errors="replace"))

    @classmethod
    def instead(cls, error: ApplicationError) -> Payload:
        """A payload that raises the error when it is read."""
        kind = (error.type or STORAGE_ERROR).encode()
        return Payload(metadata={"encoding": cls.ENCODING.encode(), "type": kind}, data=error.message.encode())


class Elsewhere(StorageDriver):
    """Stands for a storage that this process does not use, and says so when a value turns out to be there.

    That error does not end a run: its worker may be started again with the right configuration.
    """

    def __init__(self, name: str, form: str) -> None:
        self._name = name
        self._form = form

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
            f"A value of this run was stored in {self._form} ({self._name}), which is not the storage that this "
            "process was told to use: set PERDURE_STORAGE to what it was where the run was started"
        )
