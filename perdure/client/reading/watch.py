"""Follows a run live: waits until its history has grown, then reads the new events. The run does no work for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from ...events import RunEvent
from ...history.link import CLOSING_EVENTS
from ...protocol.activities import STREAM_SECONDS
from .live_text import LiveText
from .log import RunLog

RINGING_EVENTS = CLOSING_EVENTS | {EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED}
"""Run events can only come from these: whatever a workflow emits, it emits in a workflow task."""


async def watch(client: Client, workflow_id: str, log: RunLog, after: int) -> AsyncIterator[RunEvent]:
    """The events after `after`, as they come; ends with the run. Raises `RPCError` when there is no such run."""
    watcher = _Watcher(client, workflow_id, log, after)
    try:
        while True:
            await log.refresh()
            for event in watcher.recorded():
                yield event
            if watcher.has_all:
                return
            for event in await watcher.wait():
                yield event
    finally:
        await watcher.close()


class _Watcher:
    """One reader of a run: which events it was given, and what it waits with."""

    def __init__(self, client: Client, workflow_id: str, log: RunLog, after: int) -> None:
        self._client = client
        self._id = workflow_id
        self._log = log
        self._given = after
        self._live: LiveText | None = None
        self._bell: Doorbell | None = None

    @property
    def has_all(self) -> bool:
        """Whether the run has ended and every event was given."""
        return self._log.ended and self._given >= self._log.last_seq

    def recorded(self) -> Iterator[RunEvent]:
        """The events in the log that were not given yet, without the text that was given live."""
        for event in self._log.events_after(self._given):
            self._given = event.seq
            unread = self._live.unread(event) if self._live else event
            if unread is not None:
                yield unread

    async def wait(self) -> list[RunEvent]:
        """Wait until the log may have grown; returns what the model said meanwhile."""
        link = self._log.link
        if self._live is None and link.input.options.stream:
            self._live = LiveText(self._client, self._id)
        if self._bell is None or self._bell.run_id != link.run_id:
            # The history may have grown before it was listened to: the caller looks once more, then waits.
            await self.close()
            self._bell = Doorbell(self._client, self._id, link.run_id)
            return []
        await self._bell.wait(STREAM_SECONDS if self._live else None)
        return await self._live.read(self._given + 1) if self._live else []

    async def close(self) -> None:
        if self._bell:
            await self._bell.close()


class Doorbell:
    """Rings when a link's history grows by something that may have made events."""

    def __init__(self, client: Client, workflow_id: str, run_id: str) -> None:
        self.run_id = run_id
        self._handle = client.get_workflow_handle(workflow_id, run_id=run_id)
        self._rung = asyncio.Event()
        self._listening = asyncio.create_task(self._listen())

    async def wait(self, seconds: float | None) -> None:
        """Return when it has rung since the last time, or after so many seconds; None waits for as long as it takes.

        Raises what listening has raised: `RPCError` when the server is gone.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        self._rung.clear()
        if self._listening.done():
            self._listening.result()

    async def close(self) -> None:
        """Listen no longer."""
        self._listening.cancel()
        with suppress(asyncio.CancelledError):
            await self._listening

    async def _listen(self) -> None:
        try:
            async for event in self._handle.fetch_history_events(wait_new_event=True):
                if event.event_type in RINGING_EVENTS:
                    self._rung.set()
        finally:
            self._rung.set()
