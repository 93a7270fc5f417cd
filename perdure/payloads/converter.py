"""Turns values into payloads and back: pydantic's JSON, compressed when large, stored outside when too large."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar, Self

import zstandard
from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.contrib.pydantic import PydanticPayloadConverter
from temporalio.converter import (
    ActivitySerializationContext,
    CompositePayloadConverter,
    DataConverter,
    ExternalStorage,
    PayloadCodec,
    SerializationContext,
    WithSerializationContext,
)

from .encryption import Encryption, EncryptionError, encryption_from_environment, is_configured
from .encryption.codec import ENCODING as ENCRYPTED
from .encryption.codec import EncryptingCodec, require_key
from .encryption.problems import VARIABLE as KEY_VARIABLE
from .failures import EncodingFailureConverter, RedactingFailureConverter
from .limits import MAX_PAYLOAD_BYTES
from .storage import open_storage, storage_from_environment
from .storage.missing import LostValues

logger = logging.getLogger("perdure.payloads")

ENCODING = b"binary/zstd"
COMPRESS_FROM_BYTES = 16 * 1024
"""Smaller payloads stay as they are, so that the Temporal UI shows them."""
COMPRESSION_LEVEL = 9
"""1 MB takes 25 ms; values that large are rare, and kept for long."""
OWN_ACTIVITIES = "perdure."
NEVER = 1 << 62
MAX_UNPACKED_BYTES = 64 * 1024 * 1024
"""Payloads that come together and would unpack to more are passed on as they are: kilobytes can hold gigabytes."""


class SharedPayloadConverter(CompositePayloadConverter):
    """`PydanticPayloadConverter`, whose parts are made once for all instances.

    The SDK makes a converter for each task and each run of a worker, and pydantic would have to find out anew each time
    how the types are read.
    """

    _shared: ClassVar = {
        **PydanticPayloadConverter().converters,
        LostValues.ENCODING.encode(): LostValues(),
    }

    def __init__(self) -> None:
        super().__init__()
        self.converters = self._shared

    def with_context(self, context: SerializationContext) -> Self:
        """This one: none of its parts takes a context, which the SDK would ask them twenty times an iteration."""
        return self


class ZstdCodec(PayloadCodec, WithSerializationContext):
    """Compresses payloads of `from_bytes` and more, where that makes them smaller; reads what it compressed.

    Only perdure's own activities and tools are sent compressed values. What others read stays plain JSON, since no
    other SDK knows this encoding: the arguments of somebody else's activities at any size; and the input, the result
    and the messages of workflows, unless Temporal would not take them as they are.

    Every other payload passes through as it is, in both directions. So does one that only claims to be compressed:
    anybody may send a run a signal, all payloads of a workflow task are decoded at once, and an error here would fail
    that task for ever. Who reads the payload finds an encoding that it does not know, and drops it. An encrypted one is
    an error, for whoever decodes it has no key.
    """

    def __init__(self, from_bytes: int = COMPRESS_FROM_BYTES) -> None:
        self._from_bytes = from_bytes

    def with_context(self, context: SerializationContext) -> ZstdCodec:
        """The codec for the values of one activity, workflow or operation of another service."""
        if isinstance(context, ActivitySerializationContext):
            is_own = context.activity_type is None or context.activity_type.startswith(OWN_ACTIVITIES)
            return self if is_own else _codec(NEVER)
        return _codec(max(self._from_bytes, MAX_PAYLOAD_BYTES))

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        # What `decode` would leave as it is must not be compressed.
        sizes = [payload.ByteSize() for payload in payloads]
        if max(sizes, default=0) < self._from_bytes or sum(sizes) > MAX_UNPACKED_BYTES:
            return list(payloads)
        return [self._compressed(payload) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Raises `EncryptionError` for an encrypted payload."""
        unpacked, left = [], MAX_UNPACKED_BYTES
        for payload in payloads:
            value = self._decompressed(payload, left)
            unpacked.append(value)
            if value is not payload:
                left -= value.ByteSize()
        return unpacked

    def _compressed(self, payload: Payload) -> Payload:
        if payload.ByteSize() < self._from_bytes:
            return payload
        data = zstandard.ZstdCompressor(level=COMPRESSION_LEVEL).compress(payload.SerializeToString())
        if len(data) >= payload.ByteSize():
            return payload
        return Payload(metadata={"encoding": ENCODING}, data=data)

    def _decompressed(self, payload: Payload, limit: int) -> Payload:
        encoding = payload.metadata.get("encoding")
        if encoding == ENCRYPTED:
            require_key(payload)
        if encoding != ENCODING:
            return payload
        try:
            return Payload.FromString(_unpack(payload.data, limit))
        except (zstandard.ZstdError, DecodeError) as error:
            logger.warning("a payload that can't be unpacked is passed on as it is: %s", error)
            return payload


@lru_cache
def _codec(from_bytes: int) -> ZstdCodec:
    return ZstdCodec(from_bytes)


def _unpack(data: bytes, limit: int) -> bytes:
    """The data uncompressed. Raises `ZstdError` when it is not zstd, or more than `limit` bytes."""
    size = zstandard.frame_content_size(data)
    if size > limit or limit <= 0:
        raise zstandard.ZstdError(f"{size} bytes unpacked, at most {limit} are possible")
    return zstandard.ZstdDecompressor().decompress(data, max_output_size=limit)


def data_converter(
    *,
    storage: ExternalStorage | str | None = None,
    compress_from_bytes: int = COMPRESS_FROM_BYTES,
    encryption: Encryption | str | None = None,
) -> DataConverter:
    """The converter that perdure's clients and workers share.

    `storage` is where values go that are too large for Temporal: a URL, as `open_storage` takes it, or the SDK's own
    `ExternalStorage`. Payloads are compressed from `compress_from_bytes` on. With `encryption`, keys in the form of
    `PERDURE_ENCRYPTION_KEY` or what `encryption_from_environment` returns, every payload is encrypted, after that and
    before it is stored. Raises `ConfigurationError` for a URL or a key that can't be used.
    """
    if isinstance(storage, str):
        storage = open_storage(storage)
    if isinstance(encryption, str):
        encryption = Encryption.parse(encryption)
    codec = ZstdCodec(compress_from_bytes)
    return DataConverter(
        payload_converter_class=SharedPayloadConverter,
        failure_converter_class=EncodingFailureConverter if encryption else RedactingFailureConverter,
        payload_codec=EncryptingCodec(codec, encryption) if encryption else codec,
        external_storage=storage,
    )


def converter_from_environment() -> DataConverter:
    """The converter with the storage that `PERDURE_STORAGE` names and the keys of `PERDURE_ENCRYPTION_KEY`, if any.

    Raises `ConfigurationError` for a URL or keys that can't be used.
    """
    return data_converter(storage=storage_from_environment(), encryption=encryption_from_environment())


perdure_data_converter = data_converter()
"""With compression, without external storage and encryption."""


def with_converter(client: Client) -> Client:
    """The client itself; where it has Temporal's default converter, one on the same connection with perdure's.

    Raises `ConfigurationError` for a storage or keys in the environment that can't be used, and for a client whose own
    converter would send in clear text what the environment says to encrypt.
    """
    if client.data_converter != DataConverter.default:
        require_encrypting(client.data_converter)
        return client
    settings = client.config()
    settings["data_converter"] = converter_from_environment()
    return Client(**settings)


def require_encrypting(converter: DataConverter) -> None:
    """Raises `EncryptionError` where the environment says to encrypt, and the converter does not.

    A codec that is not perdure's may encrypt by itself.
    """
    codec = converter.payload_codec
    if (codec is None or isinstance(codec, ZstdCodec)) and is_configured():
        raise EncryptionError(
            f"{KEY_VARIABLE} is set, and this client's own data_converter does not encrypt: give it "
            "data_converter(encryption=encryption_from_environment()) of perdure.payloads, or none"
        )
