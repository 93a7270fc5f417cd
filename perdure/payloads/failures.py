"""Errors about values: recorded exceptions, values that are too large, and unreadable values."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from pydantic import BaseModel, ValidationError
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.failure.v1 import Failure
from temporalio.client import Client
from temporalio.converter import (
    DataConverter,
    DefaultFailureConverter,
    EncodingPayloadConverter,
    PayloadConverter,
)
from temporalio.exceptions import ApplicationError, FailureError

from ..errors import ConfigurationError, PayloadTooLargeError
from ..redaction import redacted_excerpt
from .encryption import EncryptionError
from .storage.files import STORAGE_ERROR

MAX_PAYLOAD_BYTES = 2 * 1024 * 1024 - 64 * 1024
"""Limit for one payload as sent: Temporal's 2 MiB, less 64 KiB for what surrounds a value that is
recorded again (https://docs.temporal.io/troubleshooting/blob-size-limit-error).
"""
MAX_RESULT_BYTES = 1_500_000
"""For an activity's result, uncompressed: it is recorded again as a part of the conversation."""


def size_of(value: BaseModel) -> int:
    """Return the size of the value's record in bytes, uncompressed."""
    return len(value.__pydantic_serializer__.to_json(value))


def require_recordable(value: BaseModel, what: str) -> None:
    """Check that an activity's result can be recorded: at most `MAX_RESULT_BYTES`, uncompressed.

    `what` begins the error's text. Raises `PayloadTooLargeError`.
    """
    size = size_of(value)
    if size > MAX_RESULT_BYTES:
        raise PayloadTooLargeError(
            f"{what} is too large to be recorded: {size} bytes, at most {MAX_RESULT_BYTES} are "
            "possible"
        )


async def require_sendable(
    client: Client, value: object, what: str, advice: Callable[[], str]
) -> None:
    """Check that the client can send the value: at most `MAX_PAYLOAD_BYTES`, after compression and
    external storage.

    `what` begins the error's text; `advice`, called only for an error, returns how to send less.
    Raises `PayloadTooLargeError`.
    """
    if _bytes(client.data_converter.payload_converter.to_payloads([value])) <= MAX_PAYLOAD_BYTES:
        return
    size = await bytes_as_sent(client, value)
    if size > MAX_PAYLOAD_BYTES:
        raise PayloadTooLargeError(
            f"{what} is too large for Temporal: {size} bytes after compression, at most "
            f"{MAX_PAYLOAD_BYTES} are possible. {advice()}, or configure external storage "
            "(PERDURE_STORAGE) for clients and workers"
        )


REFERENCE_BYTES = 1_000
"""Upper limit for the reference to an externally stored value in a history."""


async def bytes_as_sent(client: Client, value: object) -> int:
    """Return the size of the value in a message to Temporal in bytes, without externally stored
    parts.
    """
    converter = client.data_converter
    storage = converter.external_storage
    sizes = [
        each.ByteSize() for each in await replace(converter, external_storage=None).encode([value])
    ]
    return sum(
        REFERENCE_BYTES if storage and size >= storage.payload_size_threshold else size
        for size in sizes
    )


def _bytes(payloads: Sequence[Payload]) -> int:
    return sum(payload.ByteSize() for payload in payloads)


_STORED_ELSEWHERE = ("TMPRL1105", "No driver found with name")
"""Parts of the SDK's errors for a value in a storage that is not configured."""


@dataclass(frozen=True)
class Unread:
    """Replaces a value that this process can't read, where no type is expected."""

    error: ConfigurationError
    """The reason, and the remedy."""


@dataclass(frozen=True)
class Unparsed:
    """A value of a message to a workflow, not yet parsed: the reader decides when there is time."""

    payload: Payload
    parse: Callable[[Payload], Any]
    """Returns the value, or an `Unread`. Raises for an invalid value."""


class UnreadValues(EncodingPayloadConverter):
    """Raises the error for an unreadable value only when that value is read.

    All values of a workflow task are decoded together, also those of signals, which anybody may
    send. An error there would fail the task for ever. So the run's own values, which are read by
    their type, raise; an untyped value becomes an `Unread`, which the handlers of signals and
    updates check, unless it is lost: then its `ApplicationError` ends a run that reads it.
    """

    ENCODING = "perdure/unread"

    @property
    def encoding(self) -> str:
        return self.ENCODING

    def to_payload(self, value: Any) -> None:
        """Return None: no value is written in this form."""

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        """Return an `Unread` without a type. Raises the error with one, and that of a lost
        value.
        """
        error = self.error_of(payload)
        if type_hint is None and isinstance(error, ConfigurationError):
            return Unread(error)
        raise error

    @classmethod
    def may_be_readable(cls, payload: Payload) -> ConfigurationError | None:
        """Return the error of a value that another process may be able to read; None for any other
        payload.
        """
        if payload.metadata.get("encoding") != cls.ENCODING.encode():
            return None
        error = cls.error_of(payload)
        return error if isinstance(error, ConfigurationError) else None

    @classmethod
    def error_of(cls, payload: Payload) -> ConfigurationError | ApplicationError:
        """Return the error that `instead` recorded."""
        text, kind = payload.data.decode(errors="replace"), payload.metadata.get("type")
        if kind is not None:
            return ApplicationError(text, type=kind.decode(), non_retryable=True)
        key_id = payload.metadata.get("key")
        return (
            ConfigurationError(text)
            if key_id is None
            else EncryptionError(text, key_id=key_id.decode() or None)
        )

    @classmethod
    def instead(cls, error: Exception) -> Payload:
        """Return a payload for a value whose reading raised that error."""
        metadata = {"encoding": cls.ENCODING.encode()}
        if isinstance(error, ApplicationError):
            metadata["type"] = (error.type or STORAGE_ERROR).encode()
            return Payload(metadata=metadata, data=error.message.encode())
        if isinstance(error, EncryptionError):
            metadata["key"] = (error.key_id or "").encode()
        return Payload(metadata=metadata, data=_text(error).encode())


@contextmanager
def readable() -> Iterator[None]:
    """Raise an `EncryptionError` for a value that only a codec can read: another worker may have
    it.
    """
    try:
        yield
    except (KeyError, ValidationError) as error:
        if isinstance(error, ValidationError):
            problem = "It is declared as JSON, and is not JSON"
            is_foreign = error.errors(include_url=False)[0]["type"] == "json_invalid"
        else:  # The converter's only word for it is the SDK's text.
            problem = str(error.args[0]) if error.args else ""
            is_foreign = problem.startswith("Unknown payload encoding")
        if not is_foreign:
            raise
        raise EncryptionError(
            f"A value can't be read. {problem}: name the codec that wrote it with --codec "
            "MODULE:NAME or PERDURE_CODEC, or give the client its data_converter"
        ) from error


def _text(error: Exception) -> str:
    text = str(error)
    if any(part in text for part in _STORED_ELSEWHERE):
        return (
            f"A value is in a storage that this process does not have ({text}): set "
            "PERDURE_STORAGE to its value where the run was started"
        )
    return text if isinstance(error, ConfigurationError) else f"A value can't be read: {text}"


ENCODED_FAILURE = "Encoded failure"
"""The text that all SDKs put in place of an encoded one."""

logger = logging.getLogger("perdure.payloads")


class RedactingFailureConverter(DefaultFailureConverter):
    """The SDK's converter, with the texts and stack traces of a failure and of all its causes
    redacted.

    A foreign failure with unreadable details comes without them: an error here would fail the
    workflow task with the failure, and all its retries. A failure that another process may be able
    to read raises, as any value of a run does.
    """

    encodes_texts: ClassVar[bool] = False
    """Whether the text and the stack trace become a payload, which a codec can encrypt."""

    def to_failure(
        self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure
    ) -> None:
        super().to_failure(exception, payload_converter, failure)
        failure.message = redacted_excerpt(failure.message)
        failure.stack_trace = redacted_excerpt(failure.stack_trace)
        if self.encodes_texts:
            texts = {"message": failure.message, "stack_trace": failure.stack_trace}
            failure.encoded_attributes.CopyFrom(payload_converter.to_payloads([texts])[0])
            failure.message, failure.stack_trace = ENCODED_FAILURE, ""

    def from_failure(self, failure: Failure, payload_converter: PayloadConverter) -> BaseException:
        if failure.encoded_attributes.metadata.get("encoding") == UnreadValues.ENCODING.encode():
            raise UnreadValues.error_of(failure.encoded_attributes)
        lenient = (
            payload_converter
            if isinstance(payload_converter, _Lenient)
            else _Lenient(payload_converter)
        )
        return super().from_failure(failure, lenient)


class EncodingFailureConverter(RedactingFailureConverter):
    """The same, with texts and stack traces as payloads: for converters that encrypt."""

    encodes_texts = True


async def text_of(converter: DataConverter, failure: Failure) -> str:
    """Return the text of a recorded failure, decrypted if necessary.

    Raises `ConfigurationError` if it is encrypted and the key is missing here.
    """
    if not failure.HasField("encoded_attributes"):
        return failure.message
    copy = Failure()  # Decoding changes a failure, and this one belongs to a history.
    copy.encoded_attributes.CopyFrom(failure.encoded_attributes)
    error = await converter.decode_failure(copy)
    return error.message if isinstance(error, FailureError) else str(error)


class _Lenient(PayloadConverter):
    """Reads the details of failures: all of them, or none."""

    def __init__(self, converter: PayloadConverter) -> None:
        self._converter = getattr(converter, "at_once", converter)

    def to_payloads(self, values: Sequence[Any]) -> list[Payload]:
        return self._converter.to_payloads(values)

    def from_payloads(
        self, payloads: Sequence[Payload], type_hints: list[type] | None = None
    ) -> list[Any]:
        return self._converter.from_payloads(payloads, type_hints)

    def from_payloads_wrapper(self, payloads: Payloads | None) -> list[Any]:
        try:
            values = super().from_payloads_wrapper(payloads)
        except FailureError:  # The error explains itself, such as a missing storage.
            raise
        except Exception as error:  # A stranger's bytes can raise anything.
            logger.warning("the details of a failure can't be read, and are left out: %s", error)
            return []
        for value in values:
            if isinstance(value, Unread):
                raise value.error
        return values
