"""Reads what a model is saying while its call is under way, from the heartbeats of the activity."""

from __future__ import annotations

from typing import Literal

from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client

from ...events import RunEvent
from ...protocol import activities
from ...protocol.activities import StreamedText


class LiveText:
    """The text of the model call under way, as far as it was read here."""

    def __init__(self, client: Client, workflow_id: str) -> None:
        self._client = client
        self._handle = client.get_workflow_handle(workflow_id)
        self._said = StreamedText(iteration=0, attempt=0)

    async def read(self, seq: int) -> list[RunEvent]:
        """What was said since the last time, as events with this `seq`; a retried call begins anew.

        Raises `RPCError` when the server can't be asked.
        """
        said = await self._read()
        if said is None:
            return []
        before, self._said = self._said, said
        if (before.iteration, before.attempt) != (said.iteration, said.attempt):
            before = StreamedText(iteration=said.iteration, attempt=said.attempt)
        return [
            *_news(seq, "thinking", said.iteration, said.thinking, before.thinking),
            *_news(seq, "token", said.iteration, said.text, before.text),
        ]

    def unread(self, event: RunEvent) -> RunEvent | None:
        """The event; a recorded `token` without the text that was read here already, None when nothing is left."""
        if event.type != "token" or self._said.iteration != event.iteration:
            return event
        text = event.data["token"]
        if not text.startswith(self._said.text):
            return event
        rest = text[len(self._said.text) :]
        return event.model_copy(update={"data": {"token": rest}}) if rest else None

    async def _read(self) -> StreamedText | None:
        pending = (await self._handle.describe()).raw_description.pending_activities
        speaking = next(filter(_is_speaking, pending), None)
        if speaking is None:
            return None
        values = await self._client.data_converter.decode(list(speaking.heartbeat_details.payloads), [StreamedText])
        said: StreamedText = values[0]
        return said


def _is_speaking(pending: PendingActivityInfo) -> bool:
    """Whether it is a model call that has said something and is not between two attempts."""
    return (
        pending.activity_type.name == activities.CALL_MODEL
        and bool(pending.heartbeat_details.payloads)
        and pending.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED
    )


def _news(seq: int, type: Literal["thinking", "token"], iteration: int, text: str, before: str) -> list[RunEvent]:
    """One event with what `text` says beyond `before`, or none."""
    if len(text) <= len(before):
        return []
    return [RunEvent(seq=seq, type=type, iteration=iteration, data={"token": text[len(before) :]})]
