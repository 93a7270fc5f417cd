"""Stores values as files in a folder that machines may share."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import secrets
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol
from urllib.parse import quote

from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
    StorageDriverWorkflowInfo,
)
from temporalio.exceptions import ApplicationError

from ...private_files import make_private_folder, private_opener

STORAGE_ERROR = "storage"
"""Error type: a stored value is missing or damaged."""
NOT_STORED = "not_stored"
"""Error type: a value can't be stored now, for example on a full disk. Its call is not repeated."""


def lost_error(message: str) -> ApplicationError:
    """Return the error for a lost value. It ends a run that reads the value; a workflow task would
    retry any other one for ever.
    """
    return ApplicationError(message, type=STORAGE_ERROR, non_retryable=True)


@dataclass(frozen=True)
class StoredValue:
    """A listed value of a storage."""

    key: str
    """Its place: a path below the folder, or the name of the object."""
    digest: str
    """The SHA-256 of its content, which is in each referring history."""
    owner: str
    """The run for which it was stored, as `StoredValues.owner` names it; "" without one."""
    modified: float
    """The time of its last store, in seconds since the epoch."""


class StoredValues(Protocol):
    """Lists and removes the values of one storage."""

    def names(self) -> Iterable[str]:
        """Return the names in histories of the drivers that stored these values."""

    def owner(self, workflow_id: str) -> str:
        """Return the name of a run as an owner."""

    def values(self, namespace: str, workflow_id: str | None = None) -> AsyncIterator[StoredValue]:
        """Yield the values of one run; without an id, those of all runs of the namespace, and those
        without a run.
        """

    async def remove(self, value: StoredValue) -> bool:
        """Remove a value, and return whether it is gone: a value that was stored again since its
        listing stays.
        """


_DIGEST = re.compile(r"[0-9a-f]{64}")
_OWNED = re.compile(r"[A-Za-z0-9_%~-]+/[0-9a-f]{32}")
RUNS = "runs"
"""The folder of the runs' values, by namespace."""


class FileDriver(StorageDriver):
    """One file for each value, named by the SHA-256 of its content and checked by every read.

    The values of a run are in its folder, which `perdure delete` removes; equal values of one run
    share a file. Values without a run are in folders of the first two digits of their digests:
    `perdure sweep` removes those that no history refers to.
    """

    NAME: ClassVar[str] = "perdure.files"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def name(self) -> str:
        return self.NAME

    def type(self) -> str:
        return self.NAME

    async def store(
        self, context: StorageDriverStoreContext, payloads: Sequence[Payload]
    ) -> list[StorageDriverClaim]:
        """Write the new values. Raises an `ApplicationError` where that is not possible."""
        owned = self._folder_of(context)
        try:
            return [
                await asyncio.to_thread(self._store, payload.SerializeToString(), owned)
                for payload in payloads
            ]
        except OSError as error:
            text = (
                f"a value can't be stored in {str(self.folder)!r} (PERDURE_STORAGE): "
                f"{error.strerror or error}"
            )
            raise ApplicationError(text, type=NOT_STORED, non_retryable=True) from error

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        """Return the values. Raises `lost_error` for a file that is missing or damaged, and OSError
        when the folder itself can't be read, which is retried.
        """
        return [await asyncio.to_thread(self._read, dict(claim.claim_data)) for claim in claims]

    def names(self) -> Iterable[str]:
        return (self.NAME,)

    def owner(self, workflow_id: str) -> str:
        return hashlib.sha256(workflow_id.encode()).hexdigest()[:32]

    async def values(
        self, namespace: str, workflow_id: str | None = None
    ) -> AsyncIterator[StoredValue]:
        """Raises OSError."""
        for value in await asyncio.to_thread(self._list_values, namespace, workflow_id):
            yield value

    async def remove(self, value: StoredValue) -> bool:
        """Raises OSError."""
        return await asyncio.to_thread(self._remove, value)

    def _folder_of(self, context: StorageDriverStoreContext) -> str:
        target = context.target
        if not isinstance(target, StorageDriverWorkflowInfo) or not target.id:
            return ""
        return f"{_segment(target.namespace)}/{self.owner(target.id)}"

    def _path(self, digest: str, owned: str = "") -> Path:
        return self.folder / RUNS / owned / digest if owned else self.folder / digest[:2] / digest

    def _store(self, data: bytes, owned: str) -> StorageDriverClaim:
        digest = hashlib.sha256(data).hexdigest()
        path = self._path(digest, owned)
        try:
            os.utime(path)  # A removal sees that this value was stored again.
        except (FileNotFoundError, NotADirectoryError):
            self._write_in_folder(path, data)
        return StorageDriverClaim(claim_data={"sha256": digest, **({"of": owned} if owned else {})})

    def _write_in_folder(self, path: Path, data: bytes) -> None:
        for tries_left in (1, 0):
            self._make_folder(path.parent)
            try:
                _write(path, data)
                return
            except FileNotFoundError:  # Its last value was removed, and the folder with it.
                if not tries_left:
                    raise

    def _make_folder(self, folder: Path) -> None:
        make_private_folder(self.folder)
        for path in (
            *reversed([each for each in folder.parents if self.folder in each.parents]),
            folder,
        ):
            make_private_folder(path, is_own=True)

    def _read(self, claim: dict[str, str]) -> Payload:
        digest, owned = claim.get("sha256", ""), claim.get("of", "")
        if not _DIGEST.fullmatch(digest) or (owned and not _OWNED.fullmatch(owned)):
            raise lost_error(f"the reference to a stored value is not a SHA-256: {claim!r}")
        path = self._path(digest, owned)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            os.stat(self.folder)  # Raises if the folder is missing.
            raise lost_error(f"the stored value {str(path)!r} is gone") from None
        if hashlib.sha256(data).hexdigest() != digest:
            problem = "its content does not have the SHA-256 of its name"
            raise lost_error(f"the stored value {str(path)!r} is damaged: {problem}")
        return Payload.FromString(data)

    def _list_values(self, namespace: str, workflow_id: str | None) -> list[StoredValue]:
        os.scandir(
            self.folder
        ).close()  # Raises if the folder is missing: it would seem to be empty.
        runs = self.folder / RUNS / _segment(namespace)
        folders = (
            [runs / self.owner(workflow_id)]
            if workflow_id
            else [*_folders(runs), *_folders(self.folder)]
        )
        return [
            each
            for folder in folders
            for each in self._list_folder(folder, folder.name if folder.parent == runs else "")
        ]

    def _list_folder(self, folder: Path, owner: str) -> list[StoredValue]:
        """Return the values in one folder, with unfinished files of writers."""
        found = []
        for path in folder.iterdir() if folder.is_dir() else ():
            digest = path.name[:64]
            try:
                modified = path.stat().st_mtime
            except FileNotFoundError:
                continue
            if _DIGEST.fullmatch(digest):
                found.append(
                    StoredValue(str(path.relative_to(self.folder)), digest, owner, modified)
                )
        return found

    def _remove(self, value: StoredValue) -> bool:
        """A concurrent store of the value touches the file, or writes it again."""
        path = self.folder / value.key
        taken = path.with_name(f"{value.digest}.{secrets.token_hex(8)}")
        try:
            path.rename(taken)
        except FileNotFoundError:
            return True
        if taken.stat().st_mtime != value.modified:
            taken.rename(path)
            return False
        taken.unlink()
        with suppress(OSError):  # There is more in it.
            path.parent.rmdir()
        return True


def _segment(namespace: str) -> str:
    """Return the name of a namespace's folder."""
    return quote(namespace, safe="").replace(".", "%2E") or "%20"


def _folders(folder: Path) -> list[Path]:
    return (
        [each for each in folder.iterdir() if each.is_dir() and each.name != RUNS]
        if folder.is_dir()
        else []
    )


def _write(path: Path, data: bytes) -> None:
    """Write the file in one step: readers see all of it or nothing. Raises OSError."""
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
