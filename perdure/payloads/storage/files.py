"""Stores values as files in a folder that machines may share, and says which values are lost or elsewhere."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

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
from ...private_files import make_private_folder, private_opener

STORAGE_ERROR = "storage"
"""Error type: a value that was stored outside Temporal is missing or damaged."""


def lost_error(message: str, type: str = STORAGE_ERROR) -> ApplicationError:
    """Error for a lost value. It ends the run; any other one would be retried for ever by a workflow task."""
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
        raise lost_error(payload.data.decode(errors="replace"), kind.decode(errors="replace"))

    @classmethod
    def instead(cls, error: ApplicationError) -> Payload:
        """Return a payload that raises the error when it is read."""
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


_DIGEST = re.compile(r"[0-9a-f]{64}")


class FileDriver(StorageDriver):
    """One file for each value, named by the SHA-256 of its content, which is checked when it is read.

    Equal values share a file. Nothing is ever removed: files that are older than the namespace's retention
    period and belong to no open run may be deleted at any time.
    """

    NAME: ClassVar[str] = "perdure.files"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def name(self) -> str:
        return self.NAME

    def type(self) -> str:
        return self.NAME

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
        """Write the values that are not there yet. Raises OSError."""
        return [await asyncio.to_thread(self._store, payload.SerializeToString()) for payload in payloads]

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        """Return the values; one that raises when it is read (`LostValues`) for a file that is missing or damaged.

        Raises OSError when the folder itself can't be read, which is retried.
        """
        return [await asyncio.to_thread(self._retrieve, dict(claim.claim_data)) for claim in claims]

    def _path(self, digest: str) -> Path:
        return self.folder / digest[:2] / digest

    def _store(self, data: bytes) -> StorageDriverClaim:
        digest = hashlib.sha256(data).hexdigest()
        path = self._path(digest)
        if not path.exists():
            make_private_folder(self.folder)
            make_private_folder(path.parent, is_own=True)
            _write(path, data)
        return StorageDriverClaim(claim_data={"sha256": digest})

    def _retrieve(self, claim: dict[str, str]) -> Payload:
        try:
            return self._read(claim)
        except ApplicationError as error:
            return LostValues.instead(error)

    def _read(self, claim: dict[str, str]) -> Payload:
        digest = claim.get("sha256", "")
        if not _DIGEST.fullmatch(digest):
            raise lost_error(f"the reference to a stored value is not a SHA-256: {claim!r}")
        path = self._path(digest)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            os.stat(self.folder)  # Raises when it is the folder that is missing.
            raise lost_error(f"the stored value {str(path)!r} is gone") from None
        if hashlib.sha256(data).hexdigest() != digest:
            problem = "its content does not have the SHA-256 of its name"
            raise lost_error(f"the stored value {str(path)!r} is damaged: {problem}")
        return Payload.FromString(data)


def _write(path: Path, data: bytes) -> None:
    """Write the file so that readers see all of it or nothing, whatever fails here. Raises OSError."""
    unfinished = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        with open(unfinished, "xb", opener=private_opener) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
