"""How perdure's errors leave an activity: typed, retried where another worker may have what this one lacks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError

from ..conversation import DigestMismatchError
from ..errors import ConfigurationError, InvokerError, ModelError, RunError
from ..protocol import activities
from ..protocol.activities import NOT_HERE, Offer
from ..protocol.inventory import Lacking
from ..redaction import redacted_excerpt
from ..text import bounded_text


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
    """Error as a cause, which is recorded whole; None for one whose text, or whose cause's, is not bounded."""
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


FIRST_WAIT, LONGEST_WAIT, GROWTH = 0.05, 5.0, 0.2
"""Seconds until another worker is asked: a fifth of the time that has passed, so that a minute has about 35 questions.
"""


def refusal(lacking: Lacking, offer: Offer | None) -> ApplicationError:
    """Return the error of an activity whose worker lacks something.

    It is final if the activity is not offered to other workers, or was for long enough. Otherwise Temporal retries it,
    and any worker of the queue may get it then.
    """
    info = activity.info()
    waited = (info.current_attempt_scheduled_time - info.scheduled_time).total_seconds()
    left = offer.seconds - waited if offer else 0.0
    starts = starts_so_far() if offer else info.attempt - 1
    return ApplicationError(
        lacking.text,
        lacking.model_copy(update={"starts": starts}),
        type=NOT_HERE,
        non_retryable=left <= 0,
        next_retry_delay=timedelta(seconds=min(max(FIRST_WAIT, GROWTH * waited), LONGEST_WAIT, left)),
        category=ApplicationErrorCategory.BENIGN,
    )


def starts_so_far() -> int:
    """Return how often workers have started what this activity executes. Only for one that is offered to several
    workers.
    """
    counted = activity.info().heartbeat_details
    return int(counted[0]) if counted else 0


async def count_start() -> int:
    """Record that this worker is about to start it, before it does: so nothing is started too often.

    The attempts of the activity do not tell, because most of them are refusals. What a tool has told stays. Raises
    RPCError.
    """
    starts = starts_so_far() + 1
    handle = activity.client().get_async_activity_handle(task_token=activity.info().task_token)
    await handle.heartbeat(starts, *activity.info().heartbeat_details[1:])
    return starts
