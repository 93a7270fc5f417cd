"""What is said where a value can't be decrypted, or must not be read, and who raises it when."""

from __future__ import annotations

from temporalio.exceptions import ApplicationError

from ...errors import ConfigurationError

VARIABLE = "PERDURE_ENCRYPTION_KEY"
"""The environment variable that has the keys."""
FILE_VARIABLE = "PERDURE_ENCRYPTION_KEY_FILE"
"""The environment variable that names a file with them."""
REQUIRED_VARIABLE = "PERDURE_ENCRYPTION_REQUIRED"
"""The environment variable by which a process refuses values that are not encrypted."""
ENCRYPTION_ERROR = "encryption"
"""Error type: an encrypted value was changed after it was encrypted."""


class EncryptionError(ConfigurationError):
    """This process lacks a key, or has a wrong one; or a value is not encrypted that has to be.

    A worker's workflow task fails with it, and the run is left to a worker that is configured as it must be.
    """

    def __init__(self, message: str, *, key_id: str | None = None) -> None:
        super().__init__(message)
        self.key_id = key_id
        """The id of the key that is missing."""


REFUSED = ApplicationError(
    f"A value is not encrypted, and {REQUIRED_VARIABLE} is set here: whoever has sent it needs {VARIABLE} with a key "
    f"that this process has; or unset {REQUIRED_VARIABLE}, to read what was written before encryption",
    type=ENCRYPTION_ERROR,
)
"""The error for a value that should be encrypted. It ends a run that was started so; a signal is dropped."""


def missing_key(key_id: str, known: list[str]) -> EncryptionError:
    """The error for a key that this process does not have."""
    here = f"the keys here are {', '.join(known)}" if known else "this process has no keys"
    return EncryptionError(
        f"A value is encrypted with the key {key_id!r}, and {here}: add {key_id}:… to {VARIABLE} (or to the file that "
        f"{FILE_VARIABLE} names)",
        key_id=key_id,
    )


def other_key(key_id: str) -> EncryptionError:
    """The error for a key whose id is known, and whose value is another one here."""
    return EncryptionError(
        f"A value is encrypted with another key {key_id!r} than the one that this process has under that id: give both "
        f"sides the same {VARIABLE}; a new key needs an id of its own",
        key_id=key_id,
    )


def tampered(key_id: str) -> ApplicationError:
    """The error for a value that was changed. It ends a run that reads it."""
    return ApplicationError(
        f"An encrypted value (key {key_id!r}) was changed or damaged after it was encrypted, so it is not read: "
        "restore the server's database or the stored files, or start the run anew",
        type=ENCRYPTION_ERROR,
    )
