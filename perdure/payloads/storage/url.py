"""Opens the storage that a URL names, by which clients and workers agree on one."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from temporalio.converter import ExternalStorage, StorageDriver

from ...errors import ConfigurationError
from .files import FileDriver
from .missing import Elsewhere

VARIABLE = "PERDURE_STORAGE"
"""The environment variable that has the URL."""
STORE_FROM_BYTES = 256 * 1024
"""Values of this size and more, after compression, are stored; smaller ones stay in Temporal's history."""

DRIVERS = {
    FileDriver.NAME: "file:///folder",
    "aws.s3driver": "s3://bucket/prefix",
    "gcp.gcsdriver": "gs://bucket/prefix",
}
"""The name that histories have for each driver, and the form of the URL that chooses it."""


def storage_from_environment() -> ExternalStorage | None:
    """The storage that `PERDURE_STORAGE` names; None when it is unset or empty. Raises as `open_storage` does."""
    url = os.environ.get(VARIABLE)
    return open_storage(url) if url else None


def open_storage(url: str) -> ExternalStorage:
    """The storage at `file:///folder`, `s3://bucket/prefix` or `gs://bucket/prefix`. Contacts nothing yet.

    It stores by that URL's driver only, and says which URL is needed for a value that another one stored.
    Raises `ConfigurationError` for any other URL, and for a package that is not installed.
    """
    chosen = _driver(url)
    others = [Elsewhere(name, form) for name, form in DRIVERS.items() if name != chosen.name()]
    return ExternalStorage(
        drivers=[chosen, *others],
        driver_selector=lambda context, payload: chosen,
        payload_size_threshold=STORE_FROM_BYTES,
    )


def _driver(url: str) -> StorageDriver:
    parts = urlsplit(url)
    if parts.scheme == "file":
        return FileDriver(_folder(parts, url))
    if parts.scheme == "s3":
        from .s3 import s3_driver

        return s3_driver(*_bucket(parts, url))
    if parts.scheme == "gs":
        from .gcs import gcs_driver

        return gcs_driver(*_bucket(parts, url))
    raise _wrong(url, f"the scheme is {parts.scheme!r}")


def _folder(parts: SplitResult, url: str) -> Path:
    if parts.netloc not in ("", "localhost"):
        raise _wrong(url, f"{parts.netloc!r} is read as a host; write an absolute folder after three slashes")
    folder = Path(unquote(parts.path))
    if not folder.is_absolute() or folder == Path(folder.anchor):
        raise _wrong(url, "the folder must be absolute, and not the root")
    return folder


def _bucket(parts: SplitResult, url: str) -> tuple[str, str]:
    """The bucket, and the prefix, which is empty or ends with a slash."""
    if not parts.hostname or parts.query or parts.fragment:
        raise _wrong(url, "expected a bucket, and a prefix if any")
    prefix = parts.path.strip("/")
    return parts.netloc, f"{prefix}/" if prefix else ""


def _wrong(url: str, reason: str) -> ConfigurationError:
    forms = ", ".join(DRIVERS.values())
    return ConfigurationError(f"{VARIABLE}={url!r} can't be used: {reason}. Expected one of {forms}")
