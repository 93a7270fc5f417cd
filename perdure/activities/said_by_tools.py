"""What a tool and its run tell each other while it is executed: heartbeat details, progress, a cancellation."""

from __future__ import annotations

import asyncio

from temporalio import activity
from temporalio.service import RPCError

from ..logs import get_logger
from ..tool_calls import ToolProgress
from .attempts import last_heartbeat
from .heartbeat import HEARTBEAT_SECONDS, Heart

_log = get_logger("perdure.runs")


class Telling:
    """The details of an activity's heartbeats: how often it was started, what the tool tells, and how far it is.

    `starts`, the detail that says how often, is None where nobody counts them.
    """

    def __init__(self, heart: Heart, starts: object | None) -> None:
        self._heart = heart
        self._starts = () if starts is None else (starts,)
        self._details = last_heartbeat(is_counted=isinstance(starts, int))
        self._progress: tuple[ToolProgress, ...] = ()

    def heartbeat(self, *details: object) -> None:
        """Take the tool's details."""
        self._details = details
        self._tell()

    def report(self, progress: ToolProgress) -> None:
        """Take the tool's progress, which comes after its details."""
        self._progress = (progress,)
        self._tell()

    def _tell(self) -> None:
        self._heart.tell(*self._starts, *self._details, *self._progress)


class Cancellation:
    """Whether the run of this activity was cancelled.

    The activity itself is cancelled later, after `RunOptions.cancel_grace`. So the server is asked, but only where
    somebody wants to know: each second, from the first question on.
    """

    def __init__(self) -> None:
        info = activity.info()
        assert info.workflow_id is not None
        self._own = activity._Context.current().cancelled_event
        self._loop = asyncio.get_running_loop()
        self._handle = activity.client().get_workflow_handle(info.workflow_id, run_id=info.workflow_run_id)
        self._is_asked = self._is_known = self._has_ended = False
        self._asking: asyncio.Task[None] | None = None

    def is_cancelled(self) -> bool:
        """What is known of it now; from any thread."""
        if not self._is_asked:
            self._is_asked = True
            self._loop.call_soon_threadsafe(self._begin)
        return self._is_known or self._own.is_set()

    def stop(self) -> None:
        """Ask no more."""
        self._has_ended = True
        if self._asking is not None:
            self._asking.cancel()

    def _begin(self) -> None:
        if not self._has_ended:
            self._asking = self._loop.create_task(self._ask())

    async def _ask(self) -> None:
        while not self._is_known:
            try:
                description = await self._handle.describe()
            except RPCError as error:
                _log.debug("whether the run is cancelled is not known: %s", error)
            else:
                self._is_known = description.raw_description.workflow_extended_info.cancel_requested
            await asyncio.sleep(HEARTBEAT_SECONDS)
