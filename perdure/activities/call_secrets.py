"""Secrets of the tokens with which other systems finish tool calls: never recorded, and the same
for each attempt.
"""

from __future__ import annotations

import hmac
import os
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ConfigurationError
from ..private_files import data_folder, make_private_folder, write_private
from ..redaction import get_logger

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

VARIABLE = "PERDURE_CALL_KEY"
"""The key from which workers derive the secrets. Without it, each machine makes its own."""
MIN_KEY_CHARS = 32
SECRET_BYTES = 24
_log = get_logger("perdure.tools")


def call_secret(*place: object) -> str:
    """Return the secret of the token for one execution of a call, derived from its place: any
    worker with the key gets the same one.

    Raises `ConfigurationError` for a key that is too short.
    """
    text = "\0".join(map(str, place))
    digest = hmac.digest(
        _key(os.environ.get(VARIABLE, "")), text.encode(errors="replace"), "sha256"
    )
    return urlsafe_b64encode(digest[:SECRET_BYTES]).decode()


def seal(text: str, about: str) -> str:
    """Encrypt a text with the key. `unseal` needs the same key and the same `about`.

    Raises `ConfigurationError` as `call_secret` does, and without the package that encrypts.
    """
    nonce = secrets.token_bytes(12)
    return urlsafe_b64encode(
        nonce + _cipher().encrypt(nonce, text.encode(), about.encode())
    ).decode()


def unseal(sealed: str, about: str) -> str:
    """Return a sealed text. Raises ValueError for another key or another `about`, and as `seal`
    does.
    """
    from cryptography.exceptions import InvalidTag

    content = urlsafe_b64decode(sealed)
    try:
        return _cipher().decrypt(content[:12], content[12:], about.encode()).decode()
    except InvalidTag:
        raise ValueError(
            f"it was sealed with another key: give the same {VARIABLE} to gateways and workers"
        ) from None


def _cipher() -> AESGCM:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise ConfigurationError(
            "the secrets of A2A clients are sealed by a package that is missing: pip install "
            "'perdure[encryption]'"
        ) from None
    return AESGCM(hmac.digest(_key(os.environ.get(VARIABLE, "")), b"seal", "sha256"))


@cache
def _key(given: str) -> bytes:
    if given:
        if len(given) < MIN_KEY_CHARS:
            raise ConfigurationError(
                f"{VARIABLE} has {len(given)} characters, expected at least {MIN_KEY_CHARS}: "
                "`openssl rand -hex 32` prints one"
            )
        return given.encode()
    try:
        return _key_in(data_folder() / "call.key").encode()
    except OSError as error:
        _log.warning(
            "No key for the tokens of tool calls can be kept (%s): a call that is executed again "
            "after its worker was lost gets another token. Set %s for all workers",
            error,
            VARIABLE,
        )
        return secrets.token_bytes(32)


def _key_in(file: Path) -> str:
    """Return the key in the file; create the file if it is missing. Concurrent processes end up
    with one key. Raises OSError.
    """
    if not file.exists():
        make_private_folder(file.parent)
        new = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
        write_private(new, secrets.token_hex(32))
        try:
            with suppress(FileExistsError):
                os.link(new, file)
        finally:
            new.unlink()
    return file.read_text(encoding="utf-8")
