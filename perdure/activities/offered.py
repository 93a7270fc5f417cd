"""What becomes of an activity whose worker lacks what it needs: other workers of the queue get it."""

from __future__ import annotations

from datetime import timedelta

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from ..protocol.activities import NOT_HERE, Offer
from ..protocol.inventory import Lacking

FIRST_WAIT, LONGEST_WAIT, GROWTH = 0.05, 5.0, 0.2
"""Seconds until another worker is asked: a fifth of the time that has passed, so that a minute has about 35 questions.
"""


def refusal(lacking: Lacking, offer: Offer | None) -> ApplicationError:
    """The error of an activity whose worker lacks something.

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
    """How often workers have started what this activity executes. Only for one that is offered to several workers."""
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
