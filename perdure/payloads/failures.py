"""How exceptions are recorded in a history: without secrets, wherever they come from."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, ClassVar

from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.failure.v1 import Failure
from temporalio.converter import DataConverter, DefaultFailureConverter, PayloadConverter
from temporalio.exceptions import FailureError

from ..redaction import redacted_excerpt
from .unread import Unread, UnreadValues

ENCODED_FAILURE = "Encoded failure"
"""The text that all SDKs leave in the place of one that is encoded."""

logger = logging.getLogger("perdure.payloads")


class RedactingFailureConverter(DefaultFailureConverter):
    """The SDK's converter, with the texts and stack traces of a failure and of all its causes redacted.

    A failure of somebody else's whose details nobody can read comes without them: to raise here would fail the workflow
    task that the failure came with, and all its repetitions. One that another process may read raises, as any value of
    a run does.
    """

    encodes_texts: ClassVar[bool] = False
    """Whether the text and the stack trace become a payload, which a codec can encrypt."""

    def to_failure(self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure) -> None:
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
        lenient = payload_converter if isinstance(payload_converter, _Lenient) else _Lenient(payload_converter)
        return super().from_failure(failure, lenient)


class EncodingFailureConverter(RedactingFailureConverter):
    """The same, with texts and stack traces as payloads: for converters that encrypt."""

    encodes_texts = True


async def text_of(converter: DataConverter, failure: Failure) -> str:
    """What a recorded failure says, decrypted if need be.

    Raises `ConfigurationError` where it is encrypted, and the key is not here.
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

    def from_payloads(self, payloads: Sequence[Payload], type_hints: list[type] | None = None) -> list[Any]:
        return self._converter.from_payloads(payloads, type_hints)

    def from_payloads_wrapper(self, payloads: Payloads | None) -> list[Any]:
        try:
            values = super().from_payloads_wrapper(payloads)
        except FailureError:  # Says itself what is wrong, such as a storage that is gone.
            raise
        except Exception as error:  # Whatever a stranger's bytes lead to.
            logger.warning("the details of a failure can't be read, and are left out: %s", error)
            return []
        for value in values:
            if isinstance(value, Unread):
                raise value.error
        return values
