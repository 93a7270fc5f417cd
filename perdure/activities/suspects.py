"""Calls that may be what ends their workers: each worker executes one of them at a time.

A tool that ends its process takes all calls with it that the process was executing. Those that were lost so twice are
suspects. In their later starts none of them is beside another one, so only the guilty one uses up its starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from ..logs import get_logger
from ..protocol.activities import SUSPECT_WAITS, Offer
from .attempts import is_count_of_starts, last_heartbeat
from .offered import starts_so_far

FREE_STARTS = 2
"""As often a call is started beside any other: most workers are lost for reasons of their own."""
FIRST_WAIT, LONGEST_WAIT, GROWTH = 1.0, 60.0, 0.2
"""Seconds until a suspect is offered again: a fifth of the time that has passed."""
_log = get_logger("perdure.runs")


class Suspects:
    """The suspects of one worker."""

    def __init__(self) -> None:
        self._is_busy = False

    @contextmanager
    def alone(self, starts: int) -> Iterator[None]:
        """The block runs beside no other suspect, if a call that was started so often is one.

        Raises the ApplicationError by which Temporal offers the call again later, here or elsewhere.
        """
        if starts < FREE_STARTS:
            yield
            return
        if self._is_busy:
            raise _later()
        _log.warning(
            "%s of run %s was lost with %d workers: it is started beside no other such call",
            *(activity.info().activity_type, activity.info().workflow_id, starts),
        )
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False


def starts_before(offer: Offer | None) -> int:
    """How often the call of this activity was started by workers that were lost with it."""
    if offer is not None:
        return starts_so_far()
    details = activity.info().heartbeat_details
    if details and is_count_of_starts(details[0]):
        return int(details[0]["starts"])
    return min(activity.info().attempt - 1, FREE_STARTS)  # Later starts are counted; other attempts have waited.


async def count_suspect() -> dict[str, Any]:
    """Record one more start before it happens, so that waiting does not count; the detail that later beats begin with.

    Raises RPCError.
    """
    counted = {"event": "tool_starts", "starts": starts_before(None) + 1}
    handle = activity.client().get_async_activity_handle(task_token=activity.info().task_token)
    await handle.heartbeat(counted, *last_heartbeat(is_counted=False))
    return counted


def _later() -> ApplicationError:
    info = activity.info()
    waited = (info.current_attempt_scheduled_time - info.scheduled_time).total_seconds()
    return ApplicationError(
        "It was lost with several workers, and waits until another such call has ended here",
        type=SUSPECT_WAITS,
        next_retry_delay=timedelta(seconds=min(max(FIRST_WAIT, GROWTH * waited), LONGEST_WAIT)),
        category=ApplicationErrorCategory.BENIGN,
    )
