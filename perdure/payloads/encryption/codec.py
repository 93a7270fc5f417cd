"""Encrypts payloads and the texts that Temporal takes as plain strings, and decrypts them."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Sequence

from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    DataConverter,
    PayloadCodec,
    SerializationContext,
    WithSerializationContext,
)
from temporalio.exceptions import ApplicationError

from ...keyring import KEY_ID_FORM
from .keys import (
    Encryption,
    Key,
    missing_key,
    other_key,
    refused_error,
    tampered_error,
)

ENCODING = b"binary/perdure-encrypted"
KEY_ID, KEY_CHECK = "encryption-key-id", "encryption-key-check"
"""Names in the metadata of an encrypted payload."""
NONCE_BYTES = 12
TAG_BYTES = 16


def key_id_of(payload: Payload) -> str | None:
    """Id of the key that a payload says to be encrypted with; None for one that is not encrypted by
    perdure.
    """
    if payload.metadata.get("encoding") != ENCODING or len(payload.data) < NONCE_BYTES + TAG_BYTES:
        return None
    id = payload.metadata.get(KEY_ID, b"").decode("ascii", errors="replace")
    return id if KEY_ID_FORM.fullmatch(id) else None


class EncryptingCodec(PayloadCodec, WithSerializationContext):
    """Encrypts every payload that another codec has prepared, with AES-256-GCM, and decrypts for
    that one.

    A payload whose key is not here raises `EncryptionError`: another worker may have it. A changed
    one raises an `ApplicationError`, which ends a run that reads it. A payload that only looks like
    an encrypted one stays as it is: anybody may send junk.
    """

    def __init__(self, inner: PayloadCodec, encryption: Encryption) -> None:
        self._inner = inner
        self._encryption = encryption
        self._siblings: dict[PayloadCodec, EncryptingCodec] = {inner: self}

    @property
    def encryption(self) -> Encryption:
        """Keys."""
        return self._encryption

    def with_context(self, context: SerializationContext) -> EncryptingCodec:
        """Return the codec for the values of one activity, workflow or operation of another
        service.
        """
        if not isinstance(self._inner, WithSerializationContext):
            return self
        inner = self._inner.with_context(context)
        if inner not in self._siblings:
            sibling = EncryptingCodec(inner, self._encryption)
            sibling._siblings = self._siblings
            self._siblings[inner] = sibling
        return self._siblings[inner]

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        key = self._encryption.keys[0]
        return [_seal(payload, key) for payload in await self._inner.encode(payloads)]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Raises `EncryptionError` for a key that is not here."""
        return await self._inner.decode([self._decrypt(payload) for payload in payloads])

    def _decrypt(self, payload: Payload) -> Payload:
        id = key_id_of(payload)
        if id is None:
            if self._encryption.required:
                raise refused_error()
            return payload
        key = self._encryption.find(id)
        if key is None:
            raise missing_key(id, [known.id for known in self._encryption.keys])
        if payload.metadata.get(KEY_CHECK, key.check) != key.check:
            raise other_key(id)
        return _open(payload, key)


def _seal(payload: Payload, key: Key) -> Payload:
    nonce = os.urandom(NONCE_BYTES)
    return Payload(
        metadata={"encoding": ENCODING, KEY_ID: key.id.encode(), KEY_CHECK: key.check},
        data=nonce + key.cipher.encrypt(nonce, payload.SerializeToString(), key.associated_data),
    )


def _open(payload: Payload, key: Key) -> Payload:
    from cryptography.exceptions import InvalidTag

    nonce, data = payload.data[:NONCE_BYTES], payload.data[NONCE_BYTES:]
    try:
        return Payload.FromString(key.cipher.decrypt(nonce, data, key.associated_data))
    except (InvalidTag, DecodeError):
        raise tampered_error(key.id) from None


def require_key(payload: Payload) -> None:
    """Raises `EncryptionError` for an encrypted payload, where there is no key at all."""
    if (id := key_id_of(payload)) is not None:
        raise missing_key(id, [])


PREFIX = "perdure-encrypted:"


async def sealed_text(converter: DataConverter, text: str) -> str:
    """Return the text; where the converter encrypts, an encrypted form of it, which is a text
    too.
    """
    if not text or not isinstance(converter.payload_codec, EncryptingCodec):
        return text
    [payload] = await converter.encode([text])
    return PREFIX + base64.b64encode(payload.SerializeToString()).decode()


async def opened_text(converter: DataConverter, text: str) -> str:
    """Return the text that `sealed_text` was given; any other one as it is.

    Raises `EncryptionError` for one whose key is not here.
    """
    if not text.startswith(PREFIX):
        return text
    try:
        payload = Payload.FromString(base64.b64decode(text.removeprefix(PREFIX), validate=True))
        [opened] = await converter.decode([payload], [str])
    except (binascii.Error, DecodeError, ApplicationError):
        return text
    return str(opened)
