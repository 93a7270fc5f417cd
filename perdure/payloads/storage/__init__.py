"""Where values go that are too large for Temporal: a folder, S3 or Google Cloud Storage, chosen by one URL."""

from .drivers import STORE_FROM_BYTES, VARIABLE, close_storage, open_storage, storage_from_environment
from .files import FileDriver

__all__ = ["STORE_FROM_BYTES", "VARIABLE", "FileDriver", "close_storage", "open_storage", "storage_from_environment"]
