"""Stores values too large for Temporal: in a folder, S3 or Google Cloud Storage, by URL."""

from .cloud import close_storage
from .drivers import STORE_FROM_BYTES, VARIABLE, open_storage, storage_from_environment, values_of
from .files import FileDriver, StoredValue, StoredValues

__all__ = [
    "STORE_FROM_BYTES",
    "VARIABLE",
    "FileDriver",
    "StoredValue",
    "StoredValues",
    "close_storage",
    "open_storage",
    "storage_from_environment",
    "values_of",
]
