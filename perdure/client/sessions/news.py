"""What each event of a session's turns adds to the conversation, in place of the whole of it."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import RunNotFound
from ...events import CONVERSATION_EVENTS, RunEvent
from ...messages import Message
from ...operations import Append, Operation, Rewrite
from ..handle import RunHandle
from ..reading.cursor import Cursor


class News:
    """Follows the conversation of a session through the events of its turns, which must come in order.

    The reader knows `known` of it; None for a reader of whom nobody can say what it knows, who is told all of it again.
    The turn of which that was told last is `turn`.
    """

    def __init__(self, known: Sequence[Message] | None = (), turn: str = "") -> None:
        self._known = known
        self._turn = turn

    def of(self, event: RunEvent, turn: str) -> RunEvent:
        """The event of that turn, with `operations` in place of `messages`.

        The first ones of a turn would give the whole conversation, most of which the turns before it have told.
        """
        if event.type not in CONVERSATION_EVENTS:
            return event
        messages: list[Message] = event.data["messages"]
        operations = event.operations if turn == self._turn else _difference(self._known, messages)
        self._turn, self._known = turn, messages
        told = [each.model_dump(mode="json", by_alias=True) for each in operations]
        data = {name: value for name, value in event.data.items() if name != "messages"}
        return event.model_copy(update={"data": {**data, "operations": told}, "operations": operations})


def _difference(known: Sequence[Message] | None, messages: list[Message]) -> list[Operation]:
    if known is None or messages[: len(known)] != list(known):
        return [Rewrite(messages=messages)]
    return [Append(messages=messages[len(known) :])] if len(messages) > len(known) else []


async def news_after(run: RunHandle, before: RunHandle | None, position: int | str, *, is_first: bool) -> News:
    """For a reader who is at that position of a turn, and has read the one before it; None for a turn that is gone.

    Raises what `RunHandle.events` raises, but for a turn that is not kept any more.
    """
    if (known := await _known_at(run, Cursor(position).seq)) is not None:
        return News(known, run.id)
    if before is not None:
        return News(await _known_at(before, None))
    return News(() if is_first else None)


async def _known_at(run: RunHandle, seq: int | None) -> list[Message] | None:
    """The conversation as the last event up to that one tells it; None when none does, or the run is gone."""
    try:
        events = await run.events() if seq != 0 else []
    except RunNotFound:
        return None
    told = (event for event in reversed(events) if event.type in CONVERSATION_EVENTS)
    last = next((event for event in told if seq is None or event.seq <= seq), None)
    return None if last is None else last.data["messages"]
