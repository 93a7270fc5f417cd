"""How exceptions are recorded in a history: without secrets, wherever they come from."""

from __future__ import annotations

from temporalio.api.failure.v1 import Failure
from temporalio.converter import DefaultFailureConverter, PayloadConverter

from ..redaction import redact


class RedactingFailureConverter(DefaultFailureConverter):
    """The SDK's converter, with the texts and stack traces of a failure and of all its causes redacted."""

    def to_failure(self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure) -> None:
        super().to_failure(exception, payload_converter, failure)
        failure.message = redact(failure.message)
        failure.stack_trace = redact(failure.stack_trace)
