"""Reads the keys `KEYID:BASE64KEY[,OLDID:…]`, and explains failed decryptions."""

from __future__ import annotations

import base64
import hashlib
import os
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from temporalio.exceptions import ApplicationError

from ...errors import ConfigurationError
from ...keyring import KEY_BYTES, MAKE_ONE, keys_in, require_key_id, written_keys

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

VARIABLE = "PERDURE_ENCRYPTION_KEY"
"""The environment variable that has the keys."""
FILE_VARIABLE = "PERDURE_ENCRYPTION_KEY_FILE"
"""The environment variable that names a file with them."""
REQUIRED_VARIABLE = "PERDURE_ENCRYPTION_REQUIRED"
"""The environment variable that makes a process refuse values that are not encrypted."""
ENCRYPTION_ERROR = "encryption"
"""Error type: an encrypted value was changed after it was encrypted."""


class EncryptionError(ConfigurationError):
    """This process lacks a key, or has a wrong one; or a value lacks the required encryption.

    A worker's workflow task fails with it, and another worker with the right configuration takes
    the run.
    """

    def __init__(self, message: str, *, key_id: str | None = None) -> None:
        super().__init__(message)
        self.key_id = key_id
        """The id of the key that is missing."""


def refused_error() -> ApplicationError:
    """Return the error for a value that should be encrypted. It ends a run that was started so; a
    signal is dropped.
    """
    return ApplicationError(
        f"A value is not encrypted, and {REQUIRED_VARIABLE} is set here: its sender needs "
        f"{VARIABLE} with a key that this process has; or unset {REQUIRED_VARIABLE}, to read "
        "values from before encryption",
        type=ENCRYPTION_ERROR,
    )


def missing_key(key_id: str, known: list[str]) -> EncryptionError:
    """Return the error for a key that this process does not have."""
    here = f"the keys here are {', '.join(known)}" if known else "this process has no keys"
    return EncryptionError(
        f"A value is encrypted with the key {key_id!r}, and {here}: add {key_id}:… to {VARIABLE} "
        f"(or to the file that {FILE_VARIABLE} names)",
        key_id=key_id,
    )


def other_key(key_id: str) -> EncryptionError:
    """Return the error for a key whose id is known, and whose value is another one here."""
    return EncryptionError(
        f"A value is encrypted with another key {key_id!r} than the one that this process has "
        f"under that id: give both sides the same {VARIABLE}; a new key needs an id of its own",
        key_id=key_id,
    )


def tampered_error(key_id: str) -> ApplicationError:
    """Return the error for a value that was changed. It ends a run that reads it."""
    return ApplicationError(
        f"An encrypted value (key {key_id!r}) was changed or damaged after it was encrypted, so it "
        "is not read: restore the server's database or the stored files, or start the run anew",
        type=ENCRYPTION_ERROR,
    )


_YES, _NO = ("1", "true", "yes"), ("", "0", "false", "no")


@dataclass(frozen=True)
class Key:
    """One key for AES-256-GCM."""

    id: str
    check: bytes
    """Distinguishes the key from others of that id, without revealing it."""
    cipher: AESGCM = field(repr=False)

    @property
    def associated_data(self) -> bytes:
        """Return the data authenticated with each value: perdure's mark and the key's id."""
        return b"perdure payload 1:" + self.id.encode()


@dataclass(frozen=True)
class Encryption:
    """The keys of a process."""

    keys: tuple[Key, ...]
    """The first one encrypts; all decrypt."""
    required: bool = False
    """Whether to refuse values that are not encrypted."""

    @classmethod
    def parse(cls, text: str, *, required: bool = False, source: str = "encryption") -> Encryption:
        """Return the keys in `KEYID:BASE64KEY[,OLDID:BASE64KEY…]`; line ends separate like commas,
        and `#` begins a comment.

        `source` names the text in errors, which never show a key. Raises `EncryptionError` for a
        text of another form, and where the package `cryptography` is missing.
        """
        found = keys_in(text, source, EncryptionError)
        return cls(tuple(_key(id, secret) for id, secret in found.items()), required)

    def find(self, id: str) -> Key | None:
        """Return the key of that id; None if there is none."""
        return next((key for key in self.keys if key.id == id), None)


def is_configured() -> bool:
    """Return whether the environment asks for encryption, rightly or wrongly."""
    return any(name in os.environ for name in (VARIABLE, FILE_VARIABLE)) or _is_required()


def encryption_from_environment() -> Encryption | None:
    """Return the keys of `PERDURE_ENCRYPTION_KEY`, `…_KEY_FILE` and `…_REQUIRED`; None when none is
    set.

    Raises `EncryptionError` for anything but usable keys: an empty variable does not turn
    encryption off.
    """
    required = _is_required()
    if found := written_keys(VARIABLE, EncryptionError):
        return _parse(*found, required)
    if required:
        raise EncryptionError(
            f"{REQUIRED_VARIABLE} is set, and no key: set {VARIABLE} or {FILE_VARIABLE}; {MAKE_ONE}"
        )
    return None


def new_key(id: str) -> str:
    """Return a new random key as an entry of `PERDURE_ENCRYPTION_KEY`. Raises `EncryptionError` for
    an invalid id.
    """
    entry = f"{id}:{base64.b64encode(os.urandom(KEY_BYTES)).decode()}"
    require_key_id(id, "the new key", EncryptionError)
    return entry


@lru_cache(maxsize=4)
def _parse(text: str, source: str, required: bool) -> Encryption:
    return Encryption.parse(text, required=required, source=source)


def _is_required() -> bool:
    value = os.environ.get(REQUIRED_VARIABLE, "").strip().lower()
    if value not in (*_YES, *_NO):
        raise EncryptionError(f"{REQUIRED_VARIABLE}={value!r}: expected 1, or 0")
    return value in _YES


def _key(id: str, secret: bytes) -> Key:
    check = hashlib.blake2b(b"perdure key check", key=secret, digest_size=4).hexdigest().encode()
    return Key(id, check, _cipher(secret))


def _cipher(secret: bytes) -> AESGCM:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise EncryptionError(
            "encryption needs the package cryptography: pip install 'perdure[encryption]'"
        ) from error
    return AESGCM(secret)
