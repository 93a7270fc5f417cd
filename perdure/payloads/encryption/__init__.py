"""Encrypts every payload with keys that the Temporal server never sees."""

from .keys import Encryption, encryption_from_environment, is_configured
from .problems import EncryptionError

__all__ = ["Encryption", "EncryptionError", "encryption_from_environment", "is_configured"]
