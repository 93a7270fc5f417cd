"""Opens the storage of large values by its URL: a folder, GCS or S3."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from temporalio.converter import ExternalStorage, StorageDriver

from ...errors import ConfigurationError
from .cloud import CloudDriver
from .files import FileDriver, StoredValues
from .gcs import gcs_driver
from .s3 import s3_driver

VARIABLE = "PERDURE_STORAGE"
"""The environment variable that has the URL."""
STORE_FROM_BYTES = 256 * 1024
"""Values of this size and more, after compression, are stored; smaller ones stay in Temporal's
history."""

FORMS = "file:///folder, s3://bucket/prefix, gs://bucket/prefix"


def storage_from_environment() -> ExternalStorage | None:
    """Storage that `PERDURE_STORAGE` names; None when it is unset or empty. Raises as
    `open_storage` does.
    """
    url = os.environ.get(VARIABLE)
    return open_storage(url) if url else None


def open_storage(url: str) -> ExternalStorage:
    """Return the storage at `file:///folder`, `s3://bucket/prefix` or `gs://bucket/prefix`.
    Contacts nothing yet.

    Raises `ConfigurationError` for any other URL, and for a package that is not installed.
    """
    return ExternalStorage(drivers=[_driver(url)], payload_size_threshold=STORE_FROM_BYTES)


def values_of(storage: ExternalStorage | None) -> StoredValues | None:
    """Return the values of a storage that `open_storage` has opened; None for any other one."""
    chosen = storage.drivers[0] if storage else None
    return chosen if isinstance(chosen, FileDriver | CloudDriver) else None


def _driver(url: str) -> StorageDriver:
    parts = urlsplit(url)
    if parts.scheme == "file":
        return FileDriver(_folder(parts, url))
    if parts.scheme == "s3":
        return s3_driver(*_bucket(parts, url))
    if parts.scheme == "gs":
        return gcs_driver(*_bucket(parts, url))
    raise _wrong(url, f"the scheme is {parts.scheme!r}")


def _folder(parts: SplitResult, url: str) -> Path:
    if parts.netloc not in ("", "localhost"):
        raise _wrong(
            url, f"{parts.netloc!r} is read as a host; write an absolute folder after three slashes"
        )
    folder = Path(unquote(parts.path))
    if not folder.is_absolute() or folder == Path(folder.anchor):
        raise _wrong(url, "the folder must be absolute, and not the root")
    return folder


def _bucket(parts: SplitResult, url: str) -> tuple[str, str]:
    """Return the bucket, and the prefix, which is empty or ends with a slash."""
    if not parts.hostname or parts.query or parts.fragment:
        raise _wrong(url, "expected a bucket, and a prefix if any")
    prefix = parts.path.strip("/")
    return parts.netloc, f"{prefix}/" if prefix else ""


def _wrong(url: str, reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"{VARIABLE}={url!r} can't be used: {reason}. Expected one of {FORMS}"
    )
