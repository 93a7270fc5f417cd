"""How perdure's errors leave an activity: typed, and never retried where the loop decides."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError

from ..conversation import DigestMismatchError
from ..errors import ConfigurationError, InvokerError, ModelError, RunError
from ..protocol import activities
from ..redaction import redact


@contextmanager
def typed_failures() -> Iterator[None]:
    """Turn what the block raises into an `ApplicationError` of a type that the workflow knows, not to be retried.

    What the platform breaks is raised as it is, and so retried: a history that can't be read just now, or not far
    enough.
    """
    try:
        yield
    except ModelError as error:
        # Without its cause: the provider's own words may contain the key that it was given.
        raise _model_failure(error) from None
    except (ConfigurationError, InvokerError) as error:
        raise ApplicationError(redact(str(error)), type=activities.CONFIGURATION_ERROR, non_retryable=True) from error
    except RunError as error:
        raise ApplicationError(redact(str(error)), type=error.kind, non_retryable=True) from error
    except (RPCError, DigestMismatchError, ApplicationError):
        raise
    except Exception as error:
        text = redact(f"{type(error).__name__}: {error}")
        raise ApplicationError(text, type=activities.INTERNAL_ERROR, non_retryable=True) from error


def _model_failure(error: ModelError) -> ApplicationError:
    failure = activities.ModelFailure(
        kind=error.kind,
        provider=error.provider,
        status=error.status,
        request_id=error.request_id,
        retry_after=error.retry_after,
    )
    # One that may pass is expected: kept out of the worker's error logs and failure metrics.
    category = ApplicationErrorCategory.BENIGN if error.retryable else ApplicationErrorCategory.UNSPECIFIED
    return ApplicationError(error.message, failure, type=activities.MODEL_ERROR, non_retryable=True, category=category)
