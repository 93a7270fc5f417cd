"""Turns the failure of a model activity back into the `ModelError` that the loop decides by."""

from __future__ import annotations

from typing import cast

from temporalio.exceptions import ActivityError, ApplicationError, TimeoutError, TimeoutType

from ..errors import ModelError, ModelErrorKind
from ..protocol.activities import CONFIGURATION_ERROR, MODEL_ERROR, ModelFailure


def model_error(error: ActivityError) -> ModelError | None:
    """The provider's error, or None when the activity failed for another reason."""
    cause = error.cause
    if isinstance(cause, ApplicationError) and cause.type == MODEL_ERROR:
        failure = ModelFailure.model_validate(cause.details[0])
        return ModelError(
            cause.message,
            kind=cast(ModelErrorKind, failure.kind),
            provider=failure.provider,
            status=failure.status,
            request_id=failure.request_id,
            retry_after=failure.retry_after,
        )
    if isinstance(cause, ApplicationError) and cause.type == CONFIGURATION_ERROR:
        return ModelError(cause.message, kind="configuration", provider="perdure")
    if isinstance(cause, TimeoutError) and cause.type == TimeoutType.START_TO_CLOSE:
        return ModelError("the model call timed out", kind="timeout", provider="perdure")
    return None
