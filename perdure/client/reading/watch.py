"""Follows a run live: the history's long poll rings, and then the events are read. Costs the run nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from temporalio.api.enums.v1 import EventType, PendingActivityState
from temporalio.client import Client

from ...events import RunEvent
from ...protocol import activities
from ...protocol.activities import STREAM_SECONDS, StreamedText
from .log import RunLog

RINGS = frozenset(
    {
        EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW,
    }
)


class Doorbell:
    """Rings when a link's history grows by something that can have made events."""

    def __init__(self, client: Client, workflow_id: str, run_id: str) -> None:
        self._handle = client.get_workflow_handle(workflow_id, run_id=run_id)
        self._rung = asyncio.Event()
        self._listening = asyncio.create_task(self._listen())

    async def wait(self, seconds: float | None) -> None:
        """Return when it has rung since the last time, or after so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        self._rung.clear()
        if self._listening.done():
            self._listening.result()

    async def close(self) -> None:
        self._listening.cancel()
        with suppress(asyncio.CancelledError):
            await self._listening

    async def _listen(self) -> None:
        try:
            async for event in self._handle.fetch_history_events(wait_new_event=True):
                if event.event_type in RINGS:
                    self._rung.set()
        finally:
            self._rung.set()


class Tokens:
    """The text that a model call under way has said so far, as its activity's heartbeats tell it."""

    def __init__(self, client: Client, workflow_id: str) -> None:
        self._client = client
        self._handle = client.get_workflow_handle(workflow_id)
        self._said = StreamedText(iteration=0, attempt=0)

    async def read(self, seq: int) -> list[RunEvent]:
        """What was said since the last time; a retried call begins anew."""
        said = await self._read()
        if said is None:
            return []
        before, self._said = self._said, said
        if (before.iteration, before.attempt) != (said.iteration, said.attempt):
            before = StreamedText(iteration=said.iteration, attempt=said.attempt)
        return [*_token(seq, "thinking", said, before.thinking), *_token(seq, "token", said, before.text)]

    def rest(self, event: RunEvent) -> RunEvent | None:
        """A recorded `token` event without what was read here already; None when nothing is left of it."""
        if self._said.iteration != event.iteration or not event.data["token"].startswith(self._said.text):
            return event
        text = event.data["token"][len(self._said.text) :]
        return event.model_copy(update={"data": {"token": text}}) if text else None

    async def _read(self) -> StreamedText | None:
        description = await self._handle.describe()
        for pending in description.raw_description.pending_activities:
            if pending.activity_type.name != activities.CALL_MODEL or not pending.heartbeat_details.payloads:
                continue
            if pending.state != PendingActivityState.PENDING_ACTIVITY_STATE_STARTED:
                continue
            values = await self._client.data_converter.decode(list(pending.heartbeat_details.payloads), [StreamedText])
            said: StreamedText = values[0]
            return said
        return None


def _token(seq: int, type: str, said: StreamedText, before: str) -> list[RunEvent]:
    text = said.thinking if type == "thinking" else said.text
    if len(text) <= len(before):
        return []
    return [
        RunEvent.model_validate(
            {"seq": seq, "type": type, "iteration": said.iteration, "data": {"token": text[len(before) :]}}
        )
    ]


async def watch(client: Client, workflow_id: str, log: RunLog, after: int) -> AsyncIterator[RunEvent]:
    """The events behind `after`, as they come; ends with the run."""
    tokens: Tokens | None = None
    bell: Doorbell | None = None
    bell_of: str | None = None
    given = after
    try:
        while True:
            await log.refresh()
            for event in log.events[_index(log, given) :]:
                given = event.seq
                seen = tokens.rest(event) if tokens and event.type == "token" else event
                if seen is not None:
                    yield seen
            if log.ended:
                return
            assert log.link is not None
            if log.link.recorded.closing is not None:
                return
            if tokens is None and log.link.recorded.input.options.stream:
                tokens = Tokens(client, workflow_id)
            if bell_of != log.run_id:
                if bell:
                    await bell.close()
                bell, bell_of = Doorbell(client, workflow_id, log.link.run_id), log.run_id
                continue
            assert bell is not None
            await bell.wait(STREAM_SECONDS if tokens else None)
            if tokens:
                for token in await tokens.read(given + 1):
                    yield token
    finally:
        if bell:
            await bell.close()


def _index(log: RunLog, after: int) -> int:
    """Where the events behind `after` begin in the log."""
    return max(after + 1 - log.events[0].seq, 0) if log.events else 0
