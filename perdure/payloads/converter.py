"""Turns values into payloads and back: pydantic's JSON, compressed when large, stored externally
when too large.
"""

from __future__ import annotations

import logging
from asyncio import to_thread
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property, lru_cache
from types import NoneType
from typing import Any, ClassVar, Self

import zstandard
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as ProtobufMessage
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.client import Client
from temporalio.common import RawValue
from temporalio.contrib.pydantic import PydanticPayloadConverter
from temporalio.converter import (
    ActivitySerializationContext,
    CompositePayloadConverter,
    DataConverter,
    ExternalStorage,
    PayloadCodec,
    PayloadConverter,
    SerializationContext,
    WithSerializationContext,
)

from .codecs import ForeignCodec, codec_from_environment
from .encryption import Encryption, EncryptionError, encryption_from_environment, is_configured
from .encryption.codec import ENCODING as ENCRYPTED
from .encryption.codec import EncryptingCodec, require_key
from .encryption.keys import VARIABLE as KEY_VARIABLE
from .failures import (
    MAX_PAYLOAD_BYTES,
    EncodingFailureConverter,
    RedactingFailureConverter,
    Unparsed,
    Unread,
    UnreadValues,
    readable,
)
from .storage import open_storage, storage_from_environment
from .unpacking import (
    AT_ONCE_BYTES,
    BUDGET,
    MAX_SENT_BYTES,
    MAX_UNPACKED_BYTES,
    SHORT_BYTES,
    Unpacking,
    own_budget,
    require_readable_soon,
    weight_of,
)

logger = logging.getLogger("perdure.payloads")

ENCODING = b"binary/zstd"
COMPRESS_FROM_BYTES = 16 * 1024
"""Smaller payloads stay uncompressed, so that the Temporal UI shows them."""
COMPRESSION_LEVEL = 9
"""1 MB takes 25 ms; values of this size are rare, and kept for long."""
OWN_ACTIVITIES = "perdure."
NEVER = 1 << 62
PLAIN = b"json/plain"
"""The encoding of most payloads."""
_NOT_AS_JSON = (NoneType, bytes, ProtobufMessage, RawValue)


class SharedPayloadConverter(CompositePayloadConverter):
    """A `PydanticPayloadConverter` that shares its parts between all instances.

    The SDK creates one for each task and each run of a worker; pydantic would analyse the types
    each time.
    """

    _shared: ClassVar = {
        **PydanticPayloadConverter().converters,
        UnreadValues.ENCODING.encode(): UnreadValues(),
    }
    _json: ClassVar[Any] = _shared[PLAIN]

    def __init__(self) -> None:
        super().__init__()
        self.converters = self._shared

    def to_payloads(self, values: Sequence[Any]) -> list[Payload]:
        """Return the payloads: JSON directly, unless another converter comes first for a value."""
        for value in values:
            if isinstance(value, _NOT_AS_JSON):
                return super().to_payloads(values)
        return list(map(self._json.to_payload, values))

    def from_payloads(
        self, payloads: Sequence[Payload], type_hints: list[type] | None = None
    ) -> list[Any]:
        """Return the values. Raises `ConfigurationError` for an unreadable one, with or without a
        type.

        In a workflow, a value read without a type may come from anybody: raises
        `PayloadTooLargeError` for a value that would take long to read and exceeds the size of a
        message; the SDK then drops a signal and refuses an update.
        """
        is_message = type_hints is None and BUDGET.get() is None
        if is_message and sum(payload.ByteSize() for payload in payloads) > MAX_SENT_BYTES:
            require_readable_soon(payloads)
        for payload, type_hint in zip(payloads, type_hints or (), strict=False):
            if type_hint is RawValue and (error := UnreadValues.may_be_readable(payload)):
                raise error
        with readable():
            return super().from_payloads(payloads, type_hints)

    def with_context(self, context: SerializationContext) -> Self:
        """Return this converter: none of its parts takes a context. The SDK asks twenty times an
        iteration.
        """
        return self


class DeferringConverter(PayloadConverter):
    """The converter of perdure's workflows: messages stay `Unparsed` until the handler has time for
    them.

    A workflow task must not take two seconds, and the handler knows how much the task has already
    read.
    """

    def __init__(self, at_once: PayloadConverter) -> None:
        self.at_once = at_once
        """Reads every value immediately."""

    def to_payloads(self, values: Sequence[Any]) -> list[Payload]:
        return self.at_once.to_payloads(values)

    def from_payloads(
        self, payloads: Sequence[Payload], type_hints: list[type] | None = None
    ) -> list[Any]:
        if type_hints is not None or all(payload.ByteSize() <= SHORT_BYTES for payload in payloads):
            with readable():  # The converter may be the user's own.
                return self.at_once.from_payloads(payloads, type_hints)
        if sum(payload.ByteSize() for payload in payloads) > MAX_SENT_BYTES:
            require_readable_soon(payloads)
        return [self._unparsed_value(payload) for payload in payloads]

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        [value] = self.at_once.from_payloads([payload], None if type_hint is None else [type_hint])
        return value

    def _unparsed_value(self, payload: Payload) -> Any:
        error = UnreadValues.may_be_readable(payload)
        return Unread(error) if error else Unparsed(payload, self.from_payload)


class ZstdCodec(PayloadCodec, WithSerializationContext):
    """Compresses payloads of `from_bytes` and more, if that makes them smaller; decompresses its
    own.

    Only values for perdure's own activities and tools are compressed. Values that foreign code
    reads stay plain JSON, since no other SDK knows this encoding: arguments of foreign activities,
    at any size; and workflows' input, result and messages, unless they exceed Temporal's limit
    uncompressed.

    Every other payload passes through unchanged in both directions. So does one that only claims to
    be compressed: anybody may send a run a signal, all payloads of a workflow task are decoded
    together, and an error here would fail that task for ever. The reader of such a payload finds an
    unknown encoding and drops it. An encrypted payload is an error, because this codec is used
    without a key.
    """

    def __init__(self, from_bytes: int = COMPRESS_FROM_BYTES, *, in_workflow: bool = False) -> None:
        self._from_bytes = from_bytes
        self._in_workflow = in_workflow
        self._of_workflow: ZstdCodec | None = None

    def with_context(self, context: SerializationContext) -> ZstdCodec:
        """Return the codec for the values of one activity, workflow or Nexus operation."""
        if isinstance(context, ActivitySerializationContext):
            is_own = context.activity_type is None or context.activity_type.startswith(
                OWN_ACTIVITIES
            )
            return self if is_own else _codec(NEVER)
        if self._of_workflow is None:
            self._of_workflow = _codec(max(self._from_bytes, MAX_PAYLOAD_BYTES), in_workflow=True)
        return self._of_workflow

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        # Values that `decode` would not decompress must not be compressed.
        for payload in payloads:
            if payload.ByteSize() >= self._from_bytes:
                break
        else:
            return list(payloads)
        if sum(map(weight_of, payloads)) > MAX_UNPACKED_BYTES:
            return list(payloads)
        return [await self._compress(payload) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Raises `EncryptionError` for an encrypted payload."""
        encodings = [payload.metadata.get("encoding") for payload in payloads]
        for payload, encoding in zip(payloads, encodings, strict=True):
            if encoding == ENCRYPTED:
                require_key(payload)
        if ENCODING not in encodings:
            return list(payloads)
        unpacking = Unpacking(self._in_workflow)
        unpacked = [await self._decompress(payload, unpacking) for payload in payloads]
        unpacking.end()
        return unpacked

    async def _compress(self, payload: Payload) -> Payload:
        if (size := payload.ByteSize()) < self._from_bytes:
            return payload
        return _packed(payload) if size <= AT_ONCE_BYTES else await to_thread(_packed, payload)

    async def _decompress(self, payload: Payload, unpacking: Unpacking) -> Payload:
        if payload.metadata.get("encoding") != ENCODING:
            return payload
        try:
            return await unpacking.unpack(payload.data)
        except (zstandard.ZstdError, DecodeError) as error:
            logger.warning("a payload that can't be unpacked is passed on as it is: %s", error)
            return payload


def _packed(payload: Payload) -> Payload:
    """Return the payload compressed, unless that makes it larger."""
    whole = payload.SerializeToString()
    data = zstandard.ZstdCompressor(level=COMPRESSION_LEVEL).compress(whole)
    return (
        payload if len(data) >= len(whole) else Payload(metadata={"encoding": ENCODING}, data=data)
    )


@lru_cache
def _codec(from_bytes: int, *, in_workflow: bool = False) -> ZstdCodec:
    return ZstdCodec(from_bytes, in_workflow=in_workflow)


class TolerantConverter(DataConverter):
    """A data converter that isolates an unreadable value from the others.

    `decode` raises for such a value. A worker, which decodes all values of a workflow task together
    with the SDK's internal methods, continues without it (`UnreadValues`).
    """

    def with_context(self, context: SerializationContext) -> Self:
        """Return this converter for one activity or workflow.

        The SDK asks for it twenty times an iteration, and copies the converter each time. Of
        perdure's own parts only the codec takes the context, and has few variants: with these
        parts, each copy is made once.
        """
        if self._copies is None:
            return super().with_context(context)
        assert isinstance(self.payload_codec, ZstdCodec)
        needed = self.payload_codec.with_context(context)
        if needed is self.payload_codec:
            return self
        copy = self._copies.get(needed)
        if copy is None:
            copy = self._copies[needed] = super().with_context(context)
        return copy

    @cached_property
    def _copies(self) -> dict[ZstdCodec, Self] | None:
        """Copies made by `with_context`, by their codec; None if another part takes the context."""
        is_own = (
            type(self.payload_codec) is ZstdCodec
            and self.payload_converter_class is SharedPayloadConverter
        )
        takes_more = (
            isinstance(self.failure_converter, WithSerializationContext)
            or self.external_storage is not None
        )
        return {} if is_own and not takes_more else None

    async def decode(
        self, payloads: Sequence[Payload], type_hints: list[type] | None = None
    ) -> list[Any]:
        """Return the values. Raises `ConfigurationError` for an unreadable one."""
        # Without a budget, `from_payloads` would take untyped values for a message's.
        if type_hints is not None and self._are_plain(payloads):
            return self.payload_converter.from_payloads(payloads, type_hints)
        with own_budget():
            values = await super().decode(payloads, type_hints)
        for value in values:
            if isinstance(value, Unread):
                raise value.error
        return values

    async def decode_failure(self, failure: Failure) -> BaseException:
        """Return the exception. Raises `ConfigurationError` for an unreadable one."""
        with own_budget():
            return await super().decode_failure(failure)

    # The SDK has no public place for these. It takes each workflow task through them, and copies a
    # step's result into the task, unless it is the very object passed in (it declares list, and
    # takes any sequence).
    async def _encode_payload_sequence(self, payloads: Sequence[Payload]) -> list[Payload]:
        return _changed(payloads, await super()._encode_payload_sequence(payloads))

    async def _external_store_payload_sequence(self, payloads: Sequence[Payload]) -> list[Payload]:
        if self.external_storage is None:
            return payloads  # type: ignore[return-value]
        return _changed(payloads, await super()._external_store_payload_sequence(payloads))

    async def _encode_reference_payload_sequence(
        self, payloads: Sequence[Payload]
    ) -> list[Payload]:
        if self.external_storage is None:
            return payloads  # type: ignore[return-value]
        return _changed(payloads, await super()._encode_reference_payload_sequence(payloads))

    # A reference to a stored value is read before any codec sees the value.
    async def _decode_reference_payload_sequence(
        self, payloads: Sequence[Payload]
    ) -> list[Payload]:
        return await self._read(super()._decode_reference_payload_sequence, payloads)

    async def _external_retrieve_payload_sequence(
        self, payloads: Sequence[Payload]
    ) -> list[Payload]:
        return await self._read(super()._external_retrieve_payload_sequence, payloads)

    async def _decode_payload_sequence(self, payloads: Sequence[Payload]) -> list[Payload]:
        return await self._read(super()._decode_payload_sequence, payloads)

    async def _read(self, step: Step, payloads: Sequence[Payload]) -> list[Payload]:
        """Return the payloads after a step of decoding, as `_each` does."""
        return payloads if self._are_plain(payloads) else await _each(step, payloads)  # type: ignore[return-value]

    def _are_plain(self, payloads: Sequence[Payload]) -> bool:
        """Return whether these are uncompressed, unencrypted, inline JSON, which no step
        changes.
        """
        if type(self.payload_codec) is not ZstdCodec or self.external_storage is not None:
            return False
        for payload in payloads:
            if len(payload.metadata) != 1 or payload.metadata.get("encoding") != PLAIN:
                return False
        return True


def _changed(before: Sequence[Payload], after: list[Payload]) -> list[Payload]:
    """Return the payloads after a step: the same object if the step has changed none of them."""
    if len(before) != len(after):
        return after
    for old, new in zip(before, after, strict=True):
        if old is not new:
            return after
    return before  # type: ignore[return-value]


Step = Callable[[Sequence[Payload]], Awaitable[list[Payload]]]


async def _each(step: Step, payloads: Sequence[Payload]) -> list[Payload]:
    """Return the payloads after the step, with `UnreadValues` in place of those for which it
    raises.

    Raises `OSError`, which may pass: an unreachable storage.
    """
    try:
        return _changed(payloads, await step(payloads))
    except OSError:
        raise
    except Exception as error:  # A stranger's bytes can raise anything.
        if len(payloads) == 1:
            return [UnreadValues.instead(error)]
    return [found for payload in payloads for found in await _each(step, [payload])]


def data_converter(
    *,
    storage: ExternalStorage | str | None = None,
    compress_from_bytes: int = COMPRESS_FROM_BYTES,
    encryption: Encryption | str | None = None,
    codec: PayloadCodec | None = None,
) -> DataConverter:
    """Return the converter that perdure's clients and workers share.

    `storage` receives values that are too large for Temporal: a URL, as `open_storage` takes it, or
    the SDK's own `ExternalStorage`. Payloads are compressed from `compress_from_bytes` on. With
    `encryption`, keys in the form of `PERDURE_ENCRYPTION_KEY` or the result of
    `encryption_from_environment`, every payload is encrypted, after compression and before storage.
    Your own `codec` replaces compression for every payload. Raises `ConfigurationError` for an
    unusable URL or key, and for both encryption and a codec.
    """
    if isinstance(storage, str):
        storage = open_storage(storage)
    if isinstance(encryption, str):
        encryption = Encryption.parse(encryption)
    if encryption and codec:
        raise EncryptionError(
            f"{KEY_VARIABLE} and PERDURE_CODEC (--codec) are both given: leave out one of them"
        )
    own = ZstdCodec(compress_from_bytes)
    return TolerantConverter(
        payload_converter_class=SharedPayloadConverter,
        failure_converter_class=EncodingFailureConverter
        if encryption or codec
        else RedactingFailureConverter,
        payload_codec=EncryptingCodec(own, encryption)
        if encryption
        else ForeignCodec(codec, own)
        if codec
        else own,
        external_storage=storage,
    )


def converter_from_environment() -> DataConverter:
    """Return the converter configured by `PERDURE_STORAGE`, `PERDURE_ENCRYPTION_KEY` and
    `PERDURE_CODEC`.

    Raises `ConfigurationError` for an unusable URL, key or codec.
    """
    storage, encryption = storage_from_environment(), encryption_from_environment()
    return data_converter(storage=storage, encryption=encryption, codec=codec_from_environment())


perdure_data_converter = data_converter()


def with_converter(client: Client) -> Client:
    """Return the client; if it has Temporal's default converter, a client on the same connection
    with perdure's.

    Raises `ConfigurationError` for unusable storage or keys in the environment, and for a client
    whose own converter does not encrypt although the environment requires it.
    """
    if client.data_converter != DataConverter.default:
        require_encrypting(client.data_converter)
        return client
    settings = client.config()
    settings["data_converter"] = converter_from_environment()
    return Client(**settings)


def require_encrypting(converter: DataConverter) -> None:
    """Raises `EncryptionError` if the environment requires encryption and the converter does not
    encrypt.

    A codec that is not perdure's may encrypt by itself.
    """
    codec = converter.payload_codec
    if (codec is None or isinstance(codec, ZstdCodec)) and is_configured():
        raise EncryptionError(
            f"{KEY_VARIABLE} is set, and this client's own data_converter does not encrypt: give "
            "it data_converter(encryption=encryption_from_environment()) of perdure.payloads, or "
            "none"
        )
