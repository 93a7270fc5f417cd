"""How perdure's errors leave an activity: typed, and never retried where the loop decides."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError

from ..conversation import DigestMismatchError
from ..errors import ConfigurationError, InvokerError, ModelError, RunError
from ..protocol import activities
from ..redaction import redacted_excerpt
from ..valid_text import bounded_text


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
        raise _failure(str(error), activities.CONFIGURATION_ERROR) from _short(error)
    except RunError as error:
        raise _failure(str(error), error.kind) from _short(error)
    except (RPCError, DigestMismatchError, ApplicationError):
        raise
    except Exception as error:
        raise _failure(f"{type(error).__name__}: {error}", activities.INTERNAL_ERROR) from _short(error)


def _failure(text: str, type: str) -> ApplicationError:
    return ApplicationError(bounded_text(redacted_excerpt(text)), type=type, non_retryable=True)


def _short(error: Exception) -> Exception | None:
    """The error as a cause, which is recorded whole; None for one whose text, or whose cause's, is not bounded."""
    cause: BaseException | None = error
    while cause is not None:
        if str(cause) != bounded_text(str(cause)):
            return None
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return error


def _model_failure(error: ModelError) -> ApplicationError:
    failure = activities.ModelFailure(
        kind=error.kind,
        provider=error.provider,
        status=error.status,
        request_id=error.request_id,
        retry_after=error.retry_after,
        address=error.address,
        model=error.model,
    )
    # One that may pass, or that the run may get round, is expected: kept out of error logs and failure metrics.
    is_expected = error.retryable or error.kind == "no_tools"
    category = ApplicationErrorCategory.BENIGN if is_expected else ApplicationErrorCategory.UNSPECIFIED
    return ApplicationError(
        bounded_text(error.message), failure, type=activities.MODEL_ERROR, non_retryable=True, category=category
    )
