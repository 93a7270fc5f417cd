"""Encrypts every payload with keys that the Temporal server never sees."""

from .keys import Encryption, EncryptionError, encryption_from_environment, is_configured

__all__ = ["Encryption", "EncryptionError", "encryption_from_environment", "is_configured"]
