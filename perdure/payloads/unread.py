"""Values that this process can't read, and another one may: told from those that nobody can."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.converter import EncodingPayloadConverter
from temporalio.exceptions import ApplicationError

from ..errors import ConfigurationError
from .encryption import EncryptionError
from .storage.missing import LostValues

STORED_ELSEWHERE = "TMPRL1105"
"""Marks the SDK's error for a value that is stored outside Temporal, where no storage is configured."""


@dataclass(frozen=True)
class Unread:
    """Stands for a value that this process can't read, where nobody says which type is expected."""

    error: ConfigurationError
    """Why, and what to do."""


@dataclass(frozen=True)
class Unparsed:
    """A value of a message to a workflow, before its text is read: whether there is time for it, the reader knows."""

    payload: Payload
    parse: Callable[[Payload], Any]
    """Returns the value, or an `Unread`. Raises for what is no value."""


class UnreadValues(EncodingPayloadConverter):
    """Raises the error for a value that can't be read here when the value is read, and not before.

    All values of a workflow task are decoded at once, those of signals too, which anybody may send. To raise there
    would fail the task for ever. So the run's own values, which are read by their type, raise; what has no type gets an
    `Unread`, which the handlers of signals and updates look for.
    """

    ENCODING = "perdure/unread"

    @property
    def encoding(self) -> str:
        return self.ENCODING

    def to_payload(self, value: Any) -> None:
        """None: no value is written so."""

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        """An `Unread` where no type is given. Raises `ConfigurationError` where one is."""
        error = self.error_of(payload)
        if type_hint is None:
            return Unread(error)
        raise error

    @classmethod
    def error_of(cls, payload: Payload) -> ConfigurationError:
        """Why the value can't be read, which `instead` was told."""
        text = payload.data.decode(errors="replace")
        key_id = payload.metadata.get("key")
        return ConfigurationError(text) if key_id is None else EncryptionError(text, key_id=key_id.decode() or None)

    @classmethod
    def instead(cls, error: Exception) -> Payload:
        """A payload for the value whose reading has raised that error."""
        if isinstance(error, ApplicationError):
            return LostValues.instead(error)
        metadata = {"encoding": cls.ENCODING.encode()}
        if isinstance(error, EncryptionError):
            metadata["key"] = (error.key_id or "").encode()
        return Payload(metadata=metadata, data=_text(error).encode())


def _text(error: Exception) -> str:
    if STORED_ELSEWHERE in str(error):
        return (
            "A value is stored outside Temporal, and this process does not know where: set PERDURE_STORAGE to what it "
            "was where the run was started"
        )
    return str(error) if isinstance(error, ConfigurationError) else f"A value can't be read: {error}"
